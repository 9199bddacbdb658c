package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"breakwater/gateway/policy/fault"
)

// HashOf is the fingerprint of f, for Leased.Hash: half of a SHA-256 over its
// JSON. A gateway computes it anew over what it understood, so a rule with a
// field that one side does not know is refused instead of half obeyed.
func HashOf(f fault.Fault) string {
	text, err := json.Marshal(f)
	if err != nil {
		return "" // a Fault holds only strings and integers: it cannot be
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
