"""A filter of system calls, for programs of tests: source text that defines ``deny(*names)``."""

DENY = '''
import ctypes, platform, struct
def deny(*names):
    """Have these system calls fail with EPERM in this process, as a container's filter does."""
    numbers = {"x86_64": {"process_vm_readv": 310, "process_vm_writev": 311},
               "aarch64": {"process_vm_readv": 270, "process_vm_writev": 271}}[platform.machine()]
    load, equal, answer, allow, fail = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050001
    program = [(load, 0, 0, 0)]
    for name in names:
        program += [(equal, 0, 1, numbers[name]), (answer, 0, 0, fail)]
    program.append((answer, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program),
                                                      ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(38, 1, 0, 0, 0) == 0       # PR_SET_NO_NEW_PRIVS
    assert prctl(22, 2, ctypes.c_void_p(ctypes.addressof(filters))) == 0, ctypes.get_errno()
'''
