// Package conformance runs suites of others through a real gateway: hostile HTTP/1
// messages (the cases are http-hostile.json, their runner is run-http-hostile, in
// Python), and by build tag h2spec and the interoperability suite of gRPC. It holds
// no code but its tests.
package conformance
