package auth

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// User is a person who may sign in.
type User struct {
	Name     string
	Role     Role     // one of People
	Services []string // empty: all
	// Password is kept hashed; "": the person signs in with Issuer, or not yet.
	Password string
	// MustChange lets in only as far as the page that changes the password.
	MustChange bool
	// Issuer and Subject are who an OIDC provider says this is; "" for a local account.
	Issuer, Subject string
	CreatedBy       string
	CreatedAt       time.Time
	// Zero where it never happened.
	PasswordAt, SignedInAt, DisabledAt time.Time
}

// Live reports whether the person may sign in.
func (u User) Live() bool { return u.DisabledAt.IsZero() }

// Principal is who a session of u speaks for.
func (u User) Principal() Principal {
	return Principal{Name: u.Name, Role: u.Role, Services: u.Services, Via: BySession}
}

// PeopleRoles are the roles that a person may have.
func PeopleRoles() []Role { return []Role{Viewer, Operator, Approver, Admin} }

// FirstUser is the name of the account that a new database gets.
const FirstUser = "admin"

// Users is where people are kept. A name is used once, for a person or a token.
type Users interface {
	Users(ctx context.Context) ([]User, error)
	User(ctx context.Context, name string) (User, bool, error)
	// UserOf finds who signs in with a provider.
	UserOf(ctx context.Context, issuer, subject string) (User, bool, error)
	// AddUser adds u, or reports false where its name, or its subject, was used before.
	AddUser(ctx context.Context, u User) (bool, error)
	// SaveUser writes role, services and DisabledAt; a person who is disabled is
	// signed out everywhere in the same step. ErrLastAdmin: nobody could
	// administer after it. ErrNoUser: there is none of that name.
	SaveUser(ctx context.Context, u User) error
	// SavePassword writes the hash and ends all sessions of the person in one step.
	SavePassword(ctx context.Context, name, hash string, mustChange bool, at time.Time) error
	// Rehash replaces one hash of the same password by another, if it still stands.
	Rehash(ctx context.Context, name, old, hash string) error
}

// What callers branch on.
var (
	ErrNoUser    = errors.New("no such user")
	ErrLastAdmin = errors.New("nobody could administer any more: this is the last admin who may sign in")
)

var (
	userName = regexp.MustCompile(`^[a-z0-9][a-z0-9._@+-]{0,62}$`)
	// reserved are actors of the audit that are nobody's account.
	reserved = []string{"demo", "local", "system", "unknown", "web"}
	// serviceName is as wide as what a document may name; it keeps markup and
	// lists out of a scope.
	serviceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
)

// Check says what is wrong with name, role or services.
func (u User) Check() error {
	switch {
	case !userName.MatchString(u.Name):
		return &RuleError{fmt.Sprintf("user name %.80q: must be lower case letters, digits, '.', '_', '@', '+' or '-', at most 63", u.Name)}
	case slices.Contains(reserved, u.Name):
		return &RuleError{fmt.Sprintf("user name %s: is what the audit calls somebody else", u.Name)}
	case !slices.Contains(PeopleRoles(), u.Role):
		return &RuleError{fmt.Sprintf("role %.80q: must be viewer, operator, approver or admin", u.Role)}
	}
	return CheckServices(u.Services)
}

// CheckServices says which name of a scope cannot be one.
func CheckServices(services []string) error {
	for _, s := range services {
		if !serviceName.MatchString(s) {
			return &RuleError{fmt.Sprintf("service %.80q: must be the name of a service", s)}
		}
	}
	return nil
}

func (u User) describe() string {
	scope, how := "all services", "password"
	if len(u.Services) > 0 {
		scope = strings.Join(u.Services, ",")
	}
	if u.Issuer != "" {
		how = "subject " + u.Subject + " of " + u.Issuer
	}
	return fmt.Sprintf("role %s, %s, %s", u.Role, scope, how)
}

// Users lists everybody.
func (p *People) Users(ctx context.Context) ([]User, error) { return p.cfg.Store.Users(ctx) }

// FirstPerson makes the first account of a database and returns its password, to
// be printed once and changed at the first sign-in. It returns "" where anybody
// was ever made.
func (p *People) FirstPerson(ctx context.Context) (string, error) {
	users, err := p.cfg.Store.Users(ctx)
	if err != nil {
		return "", fmt.Errorf("look for a user: %w", err)
	}
	if len(users) > 0 {
		return "", nil
	}
	password, err := p.Create(ctx, "system", User{Name: FirstUser, Role: Admin})
	if errors.Is(err, ErrTaken) { // another control was faster
		return "", nil
	}
	return password, err
}

// Create makes a local account from Name, Role and Services, and returns its
// first password. It is kept nowhere, and must be changed at the first sign-in.
func (p *People) Create(ctx context.Context, actor string, u User) (password string, err error) {
	password = NewPassword()
	u = User{Name: u.Name, Role: u.Role, Services: u.Services, MustChange: true, CreatedBy: actor, CreatedAt: p.now()}
	if err := u.Check(); err != nil {
		return "", err
	}
	u.Password, u.PasswordAt = hashPassword(p.cfg.Cost, password), u.CreatedAt
	if err := p.add(ctx, u); err != nil {
		return "", err
	}
	return password, nil
}

func (p *People) add(ctx context.Context, u User) error {
	if err := p.audit(ctx, u.CreatedBy, "user.create", u.Name, u.describe()); err != nil {
		return err
	}
	added, err := p.cfg.Store.AddUser(ctx, u)
	if err != nil {
		return fmt.Errorf("create user %s: %w", u.Name, err)
	}
	if !added {
		return fmt.Errorf("create user %s: %w", u.Name, ErrTaken)
	}
	return nil
}

// Change gives a person another role and other services.
func (p *People) Change(ctx context.Context, actor, name string, role Role, services []string) error {
	return p.save(ctx, actor, "user.change", name, func(u *User) { u.Role, u.Services = role, services })
}

// Disable keeps a person out, and ends their sessions.
func (p *People) Disable(ctx context.Context, actor, name string) error {
	return p.save(ctx, actor, "user.disable", name, func(u *User) { u.DisabledAt = p.now() })
}

// Enable lets a person in again.
func (p *People) Enable(ctx context.Context, actor, name string) error {
	return p.save(ctx, actor, "user.enable", name, func(u *User) { u.DisabledAt = time.Time{} })
}

func (p *People) save(ctx context.Context, actor, action, name string, change func(*User)) error {
	u, found, err := p.cfg.Store.User(ctx, name)
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, name, err)
	}
	if !found {
		return fmt.Errorf("%s %.80q: %w", action, name, ErrNoUser)
	}
	before := u.describe()
	change(&u)
	if err := u.Check(); err != nil {
		return err
	}
	if err := p.audit(ctx, actor, action, name, before+" -> "+u.describe()); err != nil {
		return err
	}
	if err := p.cfg.Store.SaveUser(ctx, u); err != nil {
		return fmt.Errorf("%s %s: %w", action, name, err)
	}
	p.forgetUser(name)
	return nil
}

// Reset gives a person a new first password, the wished one or one of ours, and
// signs them out everywhere.
func (p *People) Reset(ctx context.Context, actor, name, wish string) (password string, err error) {
	u, found, err := p.cfg.Store.User(ctx, name)
	switch {
	case err != nil:
		return "", fmt.Errorf("reset %s: %w", name, err)
	case !found:
		return "", fmt.Errorf("reset %.80q: %w", name, ErrNoUser)
	case u.Issuer != "":
		return "", &RuleError{name + " signs in with " + u.Issuer + " and has no password here"}
	}
	if wish == "" {
		wish = NewPassword()
	} else if err := CheckPassword(name, wish); err != nil {
		return "", err
	}
	return wish, p.setPassword(ctx, actor, "user.reset", name, wish, true)
}

func (p *People) setPassword(ctx context.Context, actor, action, name, password string, mustChange bool) error {
	if err := p.audit(ctx, actor, action, name, "all sessions end"); err != nil {
		return err
	}
	if err := p.cfg.Store.SavePassword(ctx, name, hashPassword(p.cfg.Cost, password), mustChange, p.now()); err != nil {
		return fmt.Errorf("%s %s: %w", action, name, err)
	}
	p.forgetUser(name)
	return nil
}

func (p *People) audit(ctx context.Context, actor, action, object, detail string) error {
	if err := p.cfg.Store.Audit(ctx, Entry{Actor: actor, Action: action, Object: object, Detail: detail}); err != nil {
		return fmt.Errorf("%s %s: %w", action, object, err)
	}
	return nil
}
