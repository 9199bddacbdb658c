// Package gateway is the data plane: it compiles documents into a snapshot of
// routes and stacks, swaps it whole, serves requests by it, and records every
// one of them.
package gateway
