"""Sphinx directives that turn tables of the package into tables, so that a fact has one home.

``pyrdv-knobs`` lists the settings for users, ``pyrdv-internal`` the variables that the launcher
sets for its ranks, both of `pyrdv.config`; ``pyrdv-algorithms`` is `pyrdv.algorithms`.
"""

from docutils import nodes
from docutils.parsers.rst import Directive, Parser
from docutils.utils import new_document
from knob_rows import algorithm_rows, internal_rows, knob_rows


class _Table(Directive):
    heads = ()

    def rows(self):
        raise NotImplementedError

    def run(self):
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in [self.heads, *self.rows()]:
            first, *others = row
            lines.append(f"   * - ``{first}``" if row is not self.heads else f"   * - {first}")
            lines += [f"     - {cell}" for cell in others]
        # The page may be Markdown; the table is reStructuredText, so it gets a parser of its own.
        document = new_document("knobs", self.state.document.settings)
        Parser().parse("\n".join(lines), document)
        node = nodes.container()
        node += document.children
        return [node]


class Knobs(_Table):
    """The settings of users."""

    heads = ("Variable", "Default", "Values", "Meaning")

    def rows(self):
        return knob_rows()


class Algorithms(_Table):
    """The table of algorithms of collective calls."""

    heads = ("Call", "Algorithm", "When", "Why", "Source of the limits")

    def rows(self):
        return algorithm_rows()


class Internal(_Table):
    """The variables between the launcher and its ranks."""

    heads = ("Variable", "Meaning")

    def rows(self):
        return internal_rows()


def setup(app):
    app.add_directive("pyrdv-knobs", Knobs)
    app.add_directive("pyrdv-internal", Internal)
    app.add_directive("pyrdv-algorithms", Algorithms)
    return {"parallel_read_safe": True}
