package freeze

import (
	"fmt"
	"strings"
	"time"

	"breakwater/slo"
)

// Override lets one change through a freeze: asked for by one person, granted by
// another, for one commit or artefact, for a while, so many times.
type Override struct {
	ID        string     `json:"id"`
	Service   string     `json:"service"`
	Env       string     `json:"env"` // "": all
	Ref       string     `json:"ref"`
	Reason    string     `json:"reason"`
	Ticket    string     `json:"ticket"`
	AskedBy   string     `json:"asked_by"`
	AskedAt   time.Time  `json:"asked_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	MaxUses   int64      `json:"max_uses"`
	Used      int64      `json:"used"`
	GrantedBy string     `json:"granted_by,omitempty"`
	GrantedAt *time.Time `json:"granted_at"`
	RevokedBy string     `json:"revoked_by,omitempty"`
	RevokedAt *time.Time `json:"revoked_at"`
	// Budgets are what was left when it was asked for and when it was granted.
	AskedOn   *Snapshot `json:"asked_on"`
	GrantedOn *Snapshot `json:"granted_on"`
}

// Snapshot is the budget somebody decided on, as integers.
type Snapshot struct {
	Objective   string    `json:"objective"`
	Revision    int64     `json:"objective_revision"`
	TargetPPB   int64     `json:"target_ppb"`
	Good        int64     `json:"good"`
	Bad         int64     `json:"bad"`
	Base        int64     `json:"base"` // events the budget is reckoned on
	Allowed     int64     `json:"allowed"`
	CoveragePPM int64     `json:"coverage_ppm"`
	At          time.Time `json:"at"`
	DataUntil   time.Time `json:"data_until"`
}

// Bounds of an override.
const (
	MaxLife = 24 * time.Hour
	MaxUses = 20
)

// Codes of what an override does not do; each is a reason_code of the gate or the
// code of a refusal.
const (
	CodePending      = "override_pending"
	CodeSelfApproval = "override_self_approval"
	CodeExpired      = "override_expired"
	CodeRevoked      = "override_revoked"
	CodeOtherRef     = "override_other_ref"
	CodeUsedUp       = "override_used_up"
	CodeGranted      = "override_granted"
	CodeBad          = "bad_override"
)

// Refusal is why something about an override, or a freeze, is not done.
type Refusal struct{ Code, Detail string }

func (r *Refusal) Error() string { return r.Detail }

func refuse(code, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// Check reports what is wrong with o as it is asked for at now.
func (o Override) Check(now time.Time) error {
	switch life := o.ExpiresAt.Sub(now); {
	case !plain(o.Service, 63) || o.Service == "":
		return refuse(CodeBad, "service: must be given")
	case !plain(o.Ref, 256) || strings.TrimSpace(o.Ref) == "":
		return refuse(CodeBad, "ref: must be the commit or artefact that is to go out, up to 256 bytes")
	case !plain(o.Reason, 1000) || len(strings.TrimSpace(o.Reason)) < 10:
		return refuse(CodeBad, "reason: must be said in 10 to 1000 bytes")
	case !plain(o.Ticket, 200) || strings.TrimSpace(o.Ticket) == "":
		return refuse(CodeBad, "ticket: must name the incident or ticket, up to 200 bytes")
	case life <= 0 || life > MaxLife:
		return refuse(CodeBad, "expires_at: must be within the next 24 hours")
	case o.MaxUses < 1 || o.MaxUses > MaxUses:
		return refuse(CodeBad, "max_uses: must be 1 to %d, got %d", MaxUses, o.MaxUses)
	case o.AskedBy == "":
		return refuse(CodeBad, "somebody must ask")
	}
	return nil
}

func plain(s string, most int) bool {
	return len(s) <= most && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' })
}

// Grantable reports why by may not grant o at now. That by is an approver is for
// the routes to see to; that it is another person is for here, whatever the role.
func (o Override) Grantable(by string, now time.Time) error {
	switch {
	case by == "" || by == o.AskedBy:
		return refuse(CodeSelfApproval, "%s asked for this override; somebody else must grant it", o.AskedBy)
	case o.RevokedAt != nil:
		return refuse(CodeRevoked, "the override was revoked by %s", o.RevokedBy)
	case !now.Before(o.ExpiresAt):
		return refuse(CodeExpired, "the override expired at %s", o.ExpiresAt.UTC().Format(time.RFC3339))
	case o.GrantedAt != nil:
		return refuse(CodeGranted, "the override was granted by %s already", o.GrantedBy)
	}
	return nil
}

// Covers reports why o does not let ref out at now; nil: it does, once more.
func (o Override) Covers(ref string, now time.Time) error {
	switch {
	case o.RevokedAt != nil:
		return refuse(CodeRevoked, "Override %s was revoked by %s.", o.ID, o.RevokedBy)
	case o.GrantedAt == nil:
		return refuse(CodePending, "Override %s waits for somebody other than %s to grant it.", o.ID, o.AskedBy)
	case o.GrantedBy == o.AskedBy || o.GrantedBy == "":
		// Never written by us; a row that says so was not made by the rules.
		return refuse(CodeSelfApproval, "Override %s was granted by who asked for it.", o.ID)
	case !now.Before(o.ExpiresAt):
		return refuse(CodeExpired, "Override %s expired at %s.", o.ID, o.ExpiresAt.UTC().Format(time.RFC3339))
	case o.Used >= o.MaxUses:
		return refuse(CodeUsedUp, "Override %s was used %d times, as often as was granted.", o.ID, o.Used)
	case ref != o.Ref:
		return refuse(CodeOtherRef, "Override %s is for %.64q alone.", o.ID, o.Ref)
	}
	return nil
}

// State says how o stands at now, in words: granted, pending, never granted, expired,
// revoked, used up.
func (o Override) State(now time.Time) string {
	if o.GrantedAt == nil && o.RevokedAt == nil && !now.Before(o.ExpiresAt) {
		return "never granted"
	}
	why, _ := o.Covers(o.Ref, now).(*Refusal)
	if why == nil {
		return "granted"
	}
	return strings.ReplaceAll(strings.TrimPrefix(why.Code, "override_"), "_", " ")
}

// holds reports whether o is about service in env.
func (o Override) holds(service, env string) bool {
	return o.Service == service && (o.Env == "" || env == o.Env)
}

// Find looks for an override that lets ref of service out at now. Without one, why
// says what is wrong with the one that comes nearest: one for this very ref, the
// latest; nil: there is none to speak of. One that ended a day ago is forgotten.
func Find(all []Override, service, env, ref string, now time.Time) (found Override, ok bool, why *Refusal) {
	near := -1
	for i, o := range all {
		if !o.holds(service, env) || now.Sub(o.ExpiresAt) > MaxLife {
			continue
		}
		err := o.Covers(ref, now)
		if err == nil {
			return o, true, nil
		}
		reason := err.(*Refusal)
		if o.Ref != ref && reason.Code != CodeOtherRef {
			continue // of no concern to this change
		}
		if near < 0 || nearer(o, all[near], ref) {
			near, why = i, reason
		}
	}
	return Override{}, false, why
}

func nearer(o, than Override, ref string) bool {
	if (o.Ref == ref) != (than.Ref == ref) {
		return o.Ref == ref
	}
	return o.AskedAt.After(than.AskedAt)
}

// SnapshotOf is what s rests on.
func SnapshotOf(s slo.Status) *Snapshot {
	return &Snapshot{Objective: s.Objective.ID, Revision: s.Objective.Revision, TargetPPB: s.Objective.TargetPPB,
		Good: s.Budget.Tally.Good, Bad: s.Budget.Tally.Bad, Base: s.Budget.Base, Allowed: s.Budget.Allowed,
		CoveragePPM: s.CoveragePPM, At: s.At.UTC(), DataUntil: s.DataUntil.UTC()}
}
