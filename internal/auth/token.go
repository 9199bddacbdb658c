package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Prefix starts every secret, so that scanners find one that leaked.
const Prefix = "bw_"

// Hash is what is kept of a secret. A plain SHA-256 will do: a secret is 256
// random bits, there is nothing to guess and so nothing to slow down.
type Hash [sha256.Size]byte

// HashOf hashes a secret.
func HashOf(secret string) Hash { return sha256.Sum256([]byte(secret)) }

// Token is a named secret as it is kept.
type Token struct {
	Name     string
	Role     Role
	Services []string // empty: all
	Hash     Hash
	// CreatedBy is the actor; ExpiresAt and RevokedAt are zero where they do not apply.
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time
	RevokedAt time.Time
}

// Live reports whether the token is good at now.
func (t Token) Live(now time.Time) bool {
	return (t.RevokedAt.IsZero() || now.Before(t.RevokedAt)) && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// Principal is who the token speaks for.
func (t Token) Principal() Principal {
	return Principal{Name: t.Name, Role: t.Role, Services: t.Services, Via: ByToken}
}

// Tokens is where tokens are kept.
type Tokens interface {
	Tokens(ctx context.Context) ([]Token, error)
	// AddToken adds t, or reports false where one of that name was ever made.
	AddToken(ctx context.Context, t Token) (bool, error)
	// RevokeToken ends a token at an instant; false where no live one has that name.
	RevokeToken(ctx context.Context, name string, at time.Time) (bool, error)
}

// Auditor writes the audit. A change whose row cannot be written does not happen.
type Auditor interface {
	Audit(ctx context.Context, e Entry) error
}

// Store keeps both.
type Store interface {
	Tokens
	Auditor
}

// ErrTaken is returned for a name that was used before. Names are never used
// again, or the audit would speak of two holders by one name.
var ErrTaken = errors.New("the name is taken")

// ErrNoToken is returned where no live token has the name.
var ErrNoToken = errors.New("no live token of that name")

var tokenName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// NewSecret makes a secret.
func NewSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails: the runtime aborts where the system has no entropy
	return Prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Issue makes a token for t, of which Name, Role, Services, CreatedBy, CreatedAt
// and ExpiresAt are read. The secret is returned this once and kept nowhere.
func Issue(ctx context.Context, s Store, t Token) (secret string, err error) {
	secret = NewSecret()
	if err := add(ctx, s, t, secret); err != nil {
		return "", err
	}
	return secret, nil
}

// CheckToken says what is wrong with what is wished.
func CheckToken(t Token) error {
	if !tokenName.MatchString(t.Name) {
		return fmt.Errorf("token name %q: must be lower case letters, digits, '.', '_' or '-', at most 63", t.Name)
	}
	if !t.Role.Known() {
		return fmt.Errorf("role %q: must be one of %v", t.Role, Roles())
	}
	if err := CheckServices(t.Services); err != nil {
		return fmt.Errorf("token %s: %w", t.Name, err)
	}
	if !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(t.CreatedAt) {
		return fmt.Errorf("token %s: expires at %s, which is over", t.Name, t.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

func add(ctx context.Context, s Store, t Token, secret string) error {
	if err := CheckToken(t); err != nil {
		return err
	}
	t.Hash, t.RevokedAt = HashOf(secret), time.Time{}
	if err := s.Audit(ctx, Entry{Actor: t.CreatedBy, Action: "token.issue", Object: t.Name, Detail: t.describe()}); err != nil {
		return fmt.Errorf("issue token %s: %w", t.Name, err)
	}
	added, err := s.AddToken(ctx, t)
	if err != nil {
		return fmt.Errorf("issue token %s: %w", t.Name, err)
	}
	if !added {
		return fmt.Errorf("issue token %s: %w", t.Name, ErrTaken)
	}
	return nil
}

func (t Token) describe() string {
	scope, until := "all services", "never expires"
	if len(t.Services) > 0 {
		scope = strings.Join(t.Services, ",")
	}
	if !t.ExpiresAt.IsZero() {
		until = "until " + t.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("role %s, %s, %s", t.Role, scope, until)
}

// Revoke ends a token.
func Revoke(ctx context.Context, s Store, actor, name string, now time.Time) error {
	if err := s.Audit(ctx, Entry{Actor: actor, Action: "token.revoke", Object: name}); err != nil {
		return fmt.Errorf("revoke token %s: %w", name, err)
	}
	done, err := s.RevokeToken(ctx, name, now)
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", name, err)
	}
	if !done {
		return fmt.Errorf("revoke token %s: %w", name, ErrNoToken)
	}
	return nil
}
