// Package auth says who asks and in which role: named tokens, people with their
// passwords and sessions, the guard in front of every handler of control, and the
// chained audit that a change enters before it takes effect.
package auth

import (
	"context"
	"slices"
)

// Role is what a token may do. A token has exactly one.
type Role string

// The roles. The first four are people's, the last two machines'.
const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // writes documents, starts and stops drills
	Approver Role = "approver" // grants approvals and overrides, never their own
	Admin    Role = "admin"    // users, tokens, policies
	Gateway  Role = "gateway"  // pushes events, polls the plan
	Pipeline Role = "pipeline" // asks the gate, marks deploys
)

// Roles lists all of them.
func Roles() []Role { return []Role{Viewer, Operator, Approver, Admin, Gateway, Pipeline} }

// Known reports whether r is one of Roles.
func (r Role) Known() bool { return slices.Contains(Roles(), r) }

// Includes reports whether r may do what other may. An admin may do what people
// may, but is no machine: a leaked admin token must not be able to forge events,
// nor a gateway's to read a page.
func (r Role) Includes(other Role) bool {
	if r == other {
		return r.Known()
	}
	switch r {
	case Admin:
		return other == Viewer || other == Operator || other == Approver
	case Operator, Approver:
		return other == Viewer
	}
	return false
}

// Principal is who asks.
type Principal struct {
	Name string
	Role Role
	// Services limits the principal to these; empty means all.
	Services []string
	Via      Via
}

// Via is how a principal was let in.
type Via string

// The ways in. By loopback comes whoever sits at the demo's machine.
const (
	ByToken    Via = "token"
	BySession  Via = "session"
	ByLoopback Via = "loopback"
)

// May reports whether p holds one of roles, by itself or by inclusion. Without
// roles nobody may.
func (p Principal) May(roles ...Role) bool {
	return p.Name != "" && slices.ContainsFunc(roles, p.Role.Includes)
}

// Covers reports whether service lies in p's scope.
func (p Principal) Covers(service string) bool {
	return p.Name != "" && (len(p.Services) == 0 || slices.Contains(p.Services, service))
}

type principalKey struct{}

// With returns a context that carries p.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns who asks; the zero Principal, which may nothing, where nobody was
// let in.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}
