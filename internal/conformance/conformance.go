// Package conformance sends hostile HTTP/1 messages through a real gateway and
// judges what comes out on both sides. It holds no code but its test: the cases
// are http-hostile.json, their runner is run-http-hostile (Python).
package conformance
