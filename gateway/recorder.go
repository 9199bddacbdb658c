package gateway

import "breakwater/internal/retrylog"

// Recorder takes the records of the gateway. The spool is one.
type Recorder interface {
	// Begin says that an exchange has begun; exactly one Record with an Exchange
	// follows. The difference is what a kill may lose.
	Begin()
	// Record takes r and everything in it by copy before it returns. It never
	// blocks: what finds no room is dropped and counted.
	Record(r *retrylog.Record)
}
