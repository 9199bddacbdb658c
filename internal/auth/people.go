package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"
)

// PeopleStore keeps people and their sessions, and the audit.
type PeopleStore interface {
	Users
	Sessions
	Auditor
}

// PeopleConfig shapes People.
type PeopleConfig struct {
	Store PeopleStore
	Cost  Cost         // of new passwords; zero: DefaultCost
	Log   *slog.Logger // nil: slog.Default
}

// People signs people in and out. It is safe for concurrent use.
type People struct {
	cfg    PeopleConfig
	decoy  hashed        // what an unknown name is compared with
	slots  chan struct{} // a hash takes 64 MiB: two at a time
	reads  chan struct{} // a guessed cookie costs a read: eight at a time
	byName *throttle
	byAddr *throttle
	recall recall
}

// How often a password may be tried: a burst, then one more each pause. Only what
// failed counts. Whoever guesses for one name has 2880 tries a day.
const (
	triesPerName, namePause = 5, 30 * time.Second
	triesPerAddr, addrPause = 20, 3 * time.Second
)

// NewPeople returns People over a store.
func NewPeople(cfg PeopleConfig) (*People, error) {
	if cfg.Cost == (Cost{}) {
		cfg.Cost = DefaultCost()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	decoy, err := parseHashed(hashPassword(cfg.Cost, NewPassword()))
	if err != nil {
		return nil, fmt.Errorf("cost of passwords %+v: %w", cfg.Cost, err)
	}
	return &People{cfg: cfg, decoy: decoy, slots: make(chan struct{}, 2), reads: make(chan struct{}, 8),
		byName: newThrottle(triesPerName, namePause), byAddr: newThrottle(triesPerAddr, addrPause),
		recall: recall{known: map[Hash]remembered{}}}, nil
}

// now is in whole microseconds, as the database keeps it.
func (p *People) now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// ErrCredentials is the one answer for an unknown name, a wrong password and a
// disabled account: it must not tell which names there are.
var ErrCredentials = errors.New("name and password do not fit")

// TooManyError asks to wait.
type TooManyError struct{ After time.Duration }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("too many tries; wait %s", e.After.Round(time.Second))
}

// SignIn compares a password and opens a session; secret goes into the browser's
// cookie and is kept nowhere. addr is the peer's address, with or without a port;
// old is the secret of the session that the browser held before, which ends: an id
// that somebody planted is never the id of who signed in.
func (p *People) SignIn(ctx context.Context, name, password, addr, old string) (secret string, u User, err error) {
	name = strings.ToLower(strings.TrimSpace(name))
	addr = network(addr)
	now := p.now()
	nameFree, wait := p.byName.take(name, now)
	addrFree, wait2 := p.byAddr.take(addr, now)
	if !nameFree || !addrFree {
		// A try that was not made counts nowhere: an address that is shut out must
		// not be able to shut out names.
		if nameFree {
			p.byName.back(name)
		}
		if addrFree {
			p.byAddr.back(addr)
		}
		return "", User{}, &TooManyError{max(wait, wait2)}
	}
	if u, err = p.compare(ctx, name, password); err != nil {
		if errors.Is(err, ErrCredentials) {
			// The name is what was typed, which may be a password in the wrong field:
			// it is written only where it is a name.
			if u.Name == "" {
				name = "unknown"
			}
			if e := p.audit(ctx, name, "session.refused", name, "wrong name or password, from "+addr); e != nil {
				p.cfg.Log.Error("a refused sign-in was not audited", "err", e)
			}
			return "", User{}, ErrCredentials
		}
		// Nobody guessed anything: the database is away, or the machine is busy.
		p.byName.back(name)
		p.byAddr.back(addr)
		return "", User{}, err
	}
	p.byName.back(name)
	p.byAddr.back(addr)
	if stored, err := parseHashed(u.Password); err == nil && stored.cost.below(p.cfg.Cost) {
		p.rehash(ctx, u, password)
	}
	secret, err = p.open(ctx, u, addr, old, "password")
	return secret, u, err
}

// compare finds the person whose password fits. It takes the same work whoever is
// asked for; on ErrCredentials the name of u says whether there is such a person.
func (p *People) compare(ctx context.Context, name, password string) (User, error) {
	u, found, err := p.cfg.Store.User(ctx, name)
	if err != nil {
		return User{}, fmt.Errorf("sign in: %w", err)
	}
	h, usable := p.decoy, false
	if found && u.Live() && u.Password != "" {
		stored, err := parseHashed(u.Password)
		if err != nil {
			p.cfg.Log.Error("a password cannot be read", "user", name, "err", err)
		} else {
			h, usable = stored, true
		}
	}
	if len(password) > 4*MaxPassword {
		password, usable = "", false
	}
	fits := false
	if err := p.work(ctx, func() { fits = h.matches(password) }); err != nil {
		return User{}, err
	}
	if !fits || !usable {
		return User{Name: u.Name}, ErrCredentials
	}
	return u, nil
}

// work does one hash when there is room for it.
func (p *People) work(ctx context.Context, do func()) error {
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
		do()
		return nil
	case <-wait.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &TooManyError{10 * time.Second}
	}
}

// rehash brings a password of before up to today's cost. Who signs in does not
// wait for it to be right: the old hash is as good as it was.
func (p *People) rehash(ctx context.Context, u User, password string) {
	err := p.audit(ctx, "system", "user.rehash", u.Name, fmt.Sprintf("to m=%d KiB, t=%d, p=%d", p.cfg.Cost.Memory, p.cfg.Cost.Passes, p.cfg.Cost.Lanes))
	if err == nil {
		err = p.cfg.Store.Rehash(ctx, u.Name, u.Password, hashPassword(p.cfg.Cost, password))
	}
	if err != nil {
		p.cfg.Log.Error("a password was not hashed anew", "user", u.Name, "err", err)
	}
}

// SignInVouched opens a session for whom an OIDC provider vouches: u carries
// Issuer, Subject, the wished Name, Role and Services. The person is made at the
// first sign-in; the provider rules role and services at each.
func (p *People) SignInVouched(ctx context.Context, u User, addr, old string) (secret string, _ User, err error) {
	if u.Issuer == "" || u.Subject == "" {
		return "", User{}, &RuleError{"the provider did not say who this is"}
	}
	known, found, err := p.cfg.Store.UserOf(ctx, u.Issuer, u.Subject)
	switch {
	case err != nil:
		return "", User{}, fmt.Errorf("sign in: %w", err)
	case found && !known.Live():
		return "", User{}, &RuleError{"the account " + known.Name + " is disabled"}
	case found && (known.Role != u.Role || strings.Join(known.Services, ",") != strings.Join(u.Services, ",")):
		// The name stays what it was: the audit knows the person by it.
		if err := p.Change(ctx, known.Name, known.Name, u.Role, u.Services); err != nil {
			return "", User{}, err
		}
		known.Role, known.Services = u.Role, u.Services
	case !found:
		known = User{Name: strings.ToLower(u.Name), Role: u.Role, Services: u.Services, Issuer: u.Issuer, Subject: u.Subject, CreatedAt: p.now()}
		known.CreatedBy = known.Name
		if err := known.Check(); err != nil {
			return "", User{}, err
		}
		// A name that a local account has is not given away: whoever may choose
		// names at the provider could become anybody here.
		if err := p.add(ctx, known); errors.Is(err, ErrTaken) {
			return "", User{}, &RuleError{"the name " + known.Name + " belongs to another account here"}
		} else if err != nil {
			return "", User{}, err
		}
	}
	secret, err = p.open(ctx, known, network(addr), old, "OIDC")
	return secret, known, err
}

// ChangePassword is the person's own: it asks for the present one, ends all
// sessions of the person, and opens a new one.
func (p *People) ChangePassword(ctx context.Context, name, present, next, addr string) (secret string, err error) {
	now := p.now()
	if free, wait := p.byName.take(name, now); !free {
		return "", &TooManyError{wait}
	}
	u, err := p.compare(ctx, name, present)
	if errors.Is(err, ErrCredentials) {
		return "", &RuleError{"the present password is not right"}
	}
	p.byName.back(name)
	if err != nil {
		return "", err
	}
	if err := CheckPassword(name, next); err != nil {
		return "", err
	}
	if next == present {
		return "", &RuleError{"the new password must be another one"}
	}
	if err := p.setPassword(ctx, name, "user.password", name, next, false); err != nil {
		return "", err
	}
	u.MustChange = false
	return p.open(ctx, u, network(addr), "", "password")
}

// network is what counts as one address: of IPv6 the first 64 bits, since whoever
// has one address there has them all.
func network(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		addr = host
	}
	a, err := netip.ParseAddr(strings.Trim(addr, "[]"))
	if err != nil {
		return "unknown"
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}
