"""Two threads, of which one computes all the time and the other one gives the interpreter up and wants it back. Prints for how many ns
the second one waited for it, or that this Python has no global interpreter lock."""

import sys
import threading
import time

TURNS = 60
# A call that gives the interpreter up and gets it back at once takes less, ns.
NO_WAIT = 1_000_000

if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
    print("no global interpreter lock")
    sys.exit()

waited, ended = 0, False


def give_up_and_wait() -> None:
    global waited, ended
    for _ in range(TURNS):
        begun = time.perf_counter_ns()
        time.sleep(0)
        took = time.perf_counter_ns() - begun
        waited += took if took > NO_WAIT else 0
    ended = True


thread = threading.Thread(target=give_up_and_wait)
thread.start()
while not ended:
    sum(range(100))
thread.join()
print(waited)
