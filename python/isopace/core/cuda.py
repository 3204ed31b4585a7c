"""CUDA: not in this build."""


def is_available():
    """False: this build computes on the CPU.

    >>> mx.cuda.is_available()
    False
    """
    return False
