//! What the compile cache waits on and what it keeps for a thread, so that its schedules can be
//! tested: with the feature `shuttle` they are shuttle's, which runs threads in orders it chooses.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex};
#[cfg(feature = "shuttle")]
pub(crate) use scheduled::{Condvar, Mutex};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread_local;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread_local;

/// Shuttle's primitives with the interface of parking_lot: no poisoning, guards that wait in place.
#[cfg(feature = "shuttle")]
mod scheduled {
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    /// Empty only inside [`Condvar::wait`].
    pub(crate) struct Guard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            Guard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_ref().expect("a guard outside of wait")
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("a guard outside of wait")
        }
    }

    #[derive(Debug)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(shuttle::sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
            let held = guard.0.take().expect("a guard outside of wait");
            guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
