package alert

import "time"

// Delivered is what became of the messages to one receiver over some time.
type Delivered struct {
	Receiver              string // route/receiver
	Sent, GaveUp, Waiting int64
	SentAt                time.Time // the last one that arrived
	// The last attempt that is in the log: sent, failed (it is tried again) or gave_up.
	LastAt  time.Time
	Outcome string
	Text    string
	Took    time.Duration
}
