package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Names of the tokens that control makes by itself.
const (
	firstAdmin   = "first-admin"
	localGateway = "local-gateway"
)

// FirstAdmin makes the first admin token of a database and returns its secret,
// to be printed once. It returns "" where an admin token was ever made, live or
// not: whoever revoked the first one did not ask for another at each start.
func FirstAdmin(ctx context.Context, s Store, now time.Time) (string, error) {
	tokens, err := s.Tokens(ctx)
	if err != nil {
		return "", fmt.Errorf("look for an admin token: %w", err)
	}
	for _, t := range tokens {
		if t.Role == Admin {
			return "", nil
		}
	}
	secret, err := Issue(ctx, s, Token{Name: firstAdmin, Role: Admin, CreatedBy: "system", CreatedAt: now})
	if errors.Is(err, ErrTaken) { // another control was faster
		return "", nil
	}
	return secret, err
}

// GatewayTokenFile is where control leaves the token of the gateway beside it.
func GatewayTokenFile(stateDir string) string { return filepath.Join(stateDir, "gateway.token") }

// LocalGateway makes sure that stateDir holds a live gateway token that s knows,
// and returns its secret.
func LocalGateway(ctx context.Context, s Store, stateDir string, now time.Time) (string, error) {
	tokens, err := s.Tokens(ctx)
	if err != nil {
		return "", fmt.Errorf("look for the gateway's token: %w", err)
	}
	file := GatewayTokenFile(stateDir)
	switch secret, err := ReadSecret(file); {
	case err == nil:
		for _, t := range tokens {
			if t.Hash == HashOf(secret) && t.Role == Gateway && t.Live(now) {
				return secret, nil
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", err // someone else's file, or one that others can read: not ours to replace
	}
	// A name is used once; the state directory of another database gets its own.
	name := localGateway
	for n := 2; taken(tokens, name); n++ {
		name = fmt.Sprintf("%s-%d", localGateway, n)
	}
	secret, err := Issue(ctx, s, Token{Name: name, Role: Gateway, CreatedBy: "system", CreatedAt: now})
	if err != nil {
		return "", err
	}
	if err := WriteSecret(file, secret); err != nil {
		return "", err
	}
	return secret, nil
}

func taken(tokens []Token, name string) bool {
	for _, t := range tokens {
		if t.Name == name {
			return true
		}
	}
	return false
}

// ReadSecret reads a secret from a file that nobody but its owner can read.
func ReadSecret(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("read a token: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("read a token: %s can be read by others (mode %04o): chmod 600 it, and better make a new token", file, info.Mode().Perm())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read a token: %w", err)
	}
	secret := strings.TrimSpace(string(b))
	if !strings.HasPrefix(secret, Prefix) {
		return "", fmt.Errorf("read a token: %s does not hold one", file)
	}
	return secret, nil
}

// WriteSecret writes a secret that nobody but its owner can read; it replaces file in one step: the gateway beside us may read it at any moment.
func WriteSecret(file, secret string) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".token-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("write a token: %w", err)
	}
	defer os.Remove(tmp.Name()) // fails once it was renamed
	if _, err := tmp.WriteString(secret + "\n"); err != nil {
		_ = tmp.Close()
		return fmt.Errorf("write a token: %w", err)
	}
	if err := tmp.Close(); err != nil {
		return fmt.Errorf("write a token: %w", err)
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return fmt.Errorf("write a token: %w", err)
	}
	return nil
}
