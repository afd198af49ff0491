"""Two threads that count: only one of them runs Python's code at a time."""

import threading


def count() -> None:
    for _ in range(10_000_000):
        pass


threads = [threading.Thread(target=count) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
