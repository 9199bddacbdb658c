package auth

import (
	"regexp"
	"strings"
	"testing"
)

func TestPasswordsAreHashedAsStated(t *testing.T) {
	if c := DefaultCost(); c != (Cost{Memory: 64 << 10, Passes: 3, Lanes: 4}) {
		t.Errorf("the cost is %+v, docs/people.md states another", c)
	}
	a, b := hashPassword(cheap, "correct horse"), hashPassword(cheap, "correct horse")
	if a == b {
		t.Error("two hashes of one password are the same: there is no salt")
	}
	h, err := parseHashed(a)
	if err != nil {
		t.Fatal(err)
	}
	if !h.matches("correct horse") || h.matches("correct horsf") || h.matches("") || h.cost != cheap || !strings.HasPrefix(a, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Errorf("%s does not say what it is", a)
	}
	// A vector of the reference implementation, in its command line's form.
	known, err := parseHashed("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4")
	if err != nil || !known.matches("password") {
		t.Errorf("the vector of the reference implementation does not hold: %v", err)
	}
}

func TestCostThatRises(t *testing.T) {
	base := Cost{Memory: 64, Passes: 2, Lanes: 2}
	for _, tt := range []struct {
		cost Cost
		want bool
	}{
		{base, false}, {Cost{32, 2, 2}, true}, {Cost{64, 1, 2}, true}, {Cost{64, 2, 1}, true}, {Cost{128, 3, 4}, false}, {Cost{128, 1, 4}, true},
	} {
		if got := tt.cost.below(base); got != tt.want {
			t.Errorf("%+v below %+v: %v", tt.cost, base, got)
		}
	}
}

func TestWhatAPasswordMustBe(t *testing.T) {
	for _, tt := range []struct{ name, password, says string }{
		{"ann", "correct horse", ""}, {"ann", "ééééééééééé!", ""}, {"ann", "twelve chars", ""},
		{"ann", "eleven char", "at least 12"}, {"ann", "", "at least 12"}, {"ann", strings.Repeat("ab", 129), "at most 256"},
		{"ann", "aaaaaaaaaaaaaaa", "again and again"}, {"annabella-m", "annabella-m!", "the name"}, {"ann", "correct horse\xff", "must be text"},
	} {
		err := CheckPassword(tt.name, tt.password)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v, want %q", tt.password, err, tt.says)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		p := NewPassword()
		if !regexp.MustCompile(`^([a-z2-9]{5}-){3}[a-z2-9]{5}$`).MatchString(p) || strings.ContainsAny(p, "01ilo") || seen[p] || CheckPassword("ann", p) != nil {
			t.Fatalf("%q is no first password", p)
		}
		seen[p] = true
	}
}

// What is accepted is one text for one value, and never more work than the bounds.
func FuzzParseHashed(f *testing.F) {
	f.Add(hashPassword(cheap, "x"))
	f.Add("$argon2id$v=19$m=4294967295,t=99,p=255$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4")
	f.Add("$argon2id$v=19$m=+64,t=1,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4")
	f.Add("$argon2i$v=19$m=64,t=1,p=1$$")
	f.Add("$argon2id$v=19$m=64,t=1,p=1 tail$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHashed(s)
		if err != nil {
			return
		}
		if h.String() != s || h.cost.Memory > maxMemory || h.cost.Passes > maxPasses || h.cost.Lanes > maxLanes || h.cost.Passes == 0 || h.cost.Lanes == 0 || len(h.key) != keySize {
			t.Errorf("%q was taken as %+v", s, h.cost)
		}
	})
}
