//! The lab: slow paths and slow hosts with a known cause, on this machine alone.
