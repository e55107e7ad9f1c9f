//! Long work without a wait in it, such as reading a large body: done where it keeps no other request waiting.

use tokio::runtime::{Handle, RuntimeFlavor};

/// From so many bytes on work is long: some tenth of a millisecond for each 64 KiB.
const LONG: usize = 256 << 10;

/// Does work over so many bytes. Where it is long, the thread's other tasks go on elsewhere meanwhile.
pub fn offload<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_others =
        || Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= LONG && has_others() {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_work_keeps_no_other_task_waiting() {
        let (done, both) = tokio::join!(
            tokio::spawn(async {
                let (tell, told) = mpsc::channel();
                let other = tokio::spawn(async move { tell.send(7) });
                // Ends only where the other task runs on the one thread there is.
                let got = offload(LONG, || told.recv());
                other.await.unwrap().unwrap();
                got.unwrap()
            }),
            async { offload(1, || 8) }
        );
        assert_eq!((done.unwrap(), both), (7, 8));
    }

    #[tokio::test]
    async fn where_there_is_one_thread_it_is_done_there() {
        assert_eq!(offload(LONG, || 7), 7);
    }
}
