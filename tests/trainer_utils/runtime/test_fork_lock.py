"""A lock that is held while a process is forked."""

import os
import threading

from trainer_utils.runtime.fork_lock import ForkLock


def test_forked_process_does_not_wait_for_a_thread_of_its_parent():
    lock, is_held, may_end = ForkLock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            is_held.set()
            may_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    child = os.fork()
    if child == 0:
        threading.Timer(60, os._exit, [1]).start()  # if it waits
        with lock:
            os._exit(0)
    may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with lock:  # free again in the parent
        pass
