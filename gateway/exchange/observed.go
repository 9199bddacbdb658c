package exchange

// Observe notes what a policy that only observes would have done, as the event
// names it: "limiter:rate".
func (x *Exchange) Observe(what string) {
	if x.Event.Observed != "" {
		what = x.Event.Observed + "," + what
	}
	x.Event.Observed = what
}
