package auth

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Cost is the work of one argon2id hash (RFC 9106).
type Cost struct {
	Memory uint32 // KiB
	Passes uint32
	Lanes  uint8
}

// DefaultCost is the second choice that RFC 9106, section 4 recommends: 64 MiB,
// three passes, four lanes. The first needs 2 GiB for each sign-in.
func DefaultCost() Cost { return Cost{Memory: 64 << 10, Passes: 3, Lanes: 4} }

// below reports whether c is less work than want in any part.
func (c Cost) below(want Cost) bool {
	return c.Memory < want.Memory || c.Passes < want.Passes || c.Lanes < want.Lanes
}

// Limits of what is read back: a row of the database must not be able to make a
// sign-in take minutes or gigabytes.
const (
	maxMemory = 1 << 20 // KiB
	maxPasses = 16
	maxLanes  = 16
	saltSize  = 16
	keySize   = 32
)

// hashed is a password as it is kept, in the PHC string form
// $argon2id$v=19$m=65536,t=3,p=4$salt$key.
type hashed struct {
	cost      Cost
	salt, key []byte
}

// hashPassword hashes a password with a new salt.
func hashPassword(c Cost, password string) string {
	h := hashed{cost: c, salt: make([]byte, saltSize)}
	rand.Read(h.salt)
	h.key = h.derive(password)
	return h.String()
}

func (h hashed) derive(password string) []byte {
	return argon2.IDKey([]byte(password), h.salt, h.cost.Passes, h.cost.Memory, h.cost.Lanes, keySize)
}

func (h hashed) matches(password string) bool {
	return subtle.ConstantTimeCompare(h.derive(password), h.key) == 1
}

func (h hashed) String() string {
	b64 := base64.RawStdEncoding.Strict()
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.cost.Memory, h.cost.Passes, h.cost.Lanes,
		b64.EncodeToString(h.salt), b64.EncodeToString(h.key))
}

var errHash = errors.New("the kept password is not one of argon2id")

func parseHashed(s string) (hashed, error) {
	part := strings.Split(s, "$")
	if len(part) != 6 || part[0] != "" || part[1] != "argon2id" || part[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return hashed{}, errHash
	}
	var h hashed
	if n, err := fmt.Sscanf(part[3], "m=%d,t=%d,p=%d", &h.cost.Memory, &h.cost.Passes, &h.cost.Lanes); n != 3 || err != nil {
		return hashed{}, errHash
	}
	// argon2 asks for at least 8 KiB a lane.
	if h.cost.Passes < 1 || h.cost.Lanes < 1 || h.cost.Memory < 8*uint32(h.cost.Lanes) ||
		h.cost.Memory > maxMemory || h.cost.Passes > maxPasses || h.cost.Lanes > maxLanes {
		return hashed{}, errHash
	}
	b64 := base64.RawStdEncoding.Strict()
	var err, err2 error
	h.salt, err = b64.DecodeString(part[4])
	h.key, err2 = b64.DecodeString(part[5])
	if err != nil || err2 != nil || len(h.salt) < 8 || len(h.salt) > 64 || len(h.key) != keySize {
		return hashed{}, errHash
	}
	// One text for one value: what Sscanf forgives ("+3", a tail) is not ours.
	if h.String() != s {
		return hashed{}, errHash
	}
	return h, nil
}

// Bounds of a password, in characters. There is no rule about kinds of letters:
// NIST SP 800-63B found that such rules make passwords worse.
const (
	MinPassword = 12
	MaxPassword = 256
)

// CheckPassword says why a password may not be used; nil: it may.
func CheckPassword(name, password string) error {
	switch n := utf8.RuneCountInString(password); {
	case n < MinPassword:
		return &RuleError{fmt.Sprintf("the password must have at least %d characters, got %d", MinPassword, n)}
	case n > MaxPassword:
		return &RuleError{fmt.Sprintf("the password must have at most %d characters, got %d", MaxPassword, n)}
	case !utf8.ValidString(password):
		return &RuleError{"the password must be text"}
	case strings.Count(password, password[:1]) == len(password):
		return &RuleError{"the password must be more than one letter again and again"}
	case strings.Contains(strings.ToLower(password), name) && len(password) < len(name)+MinPassword:
		return &RuleError{"the password must not be the name with little more"}
	}
	return nil
}

// RuleError is a wish that a rule forbids; its text is for who wished.
type RuleError struct{ Why string }

func (e *RuleError) Error() string { return e.Why }

// oneTime is the alphabet of passwords that are read from a screen and typed once:
// no 0 and o, no 1, i and l.
const oneTime = "abcdefghjkmnpqrstuvwxyz23456789"

// NewPassword makes a password to be given away once: 20 letters, 99 bits.
func NewPassword() string {
	var out []byte
	var b [1]byte
	for len(out) < 23 {
		if len(out) == 5 || len(out) == 11 || len(out) == 17 {
			out = append(out, '-')
			continue
		}
		// Bytes past the last whole multiple are thrown away, or some letters
		// would come more often.
		if rand.Read(b[:]); int(b[0]) < 256/len(oneTime)*len(oneTime) {
			out = append(out, oneTime[int(b[0])%len(oneTime)])
		}
	}
	return string(out)
}
