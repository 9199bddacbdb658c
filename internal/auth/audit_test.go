package auth

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func chainOf(t *testing.T, n int) *memory {
	t.Helper()
	m := &memory{}
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	for i := range n {
		if err := m.Audit(t.Context(), Entry{"ann", "run.abort", "r-1", "because", at.Add(time.Duration(i) * time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestVerify(t *testing.T) {
	const n = 2500 // more than two pages
	tests := []struct {
		name string
		do   func(rows []Row) []Row
		want int64 // the first bad row; 0: none
	}{
		{"untouched", func(r []Row) []Row { return r }, 0},
		{"text altered", func(r []Row) []Row { r[1500].Detail = "no reason"; return r }, 1501},
		{"actor altered", func(r []Row) []Row { r[7].Actor = "bob"; return r }, 8},
		{"time altered", func(r []Row) []Row { r[7].At = r[7].At.Add(time.Microsecond); return r }, 8},
		{"altered and hashed anew", func(r []Row) []Row { r[7].Actor = "bob"; r[7].Hash = r[7].sum(); return r }, 9},
		{"removed", func(r []Row) []Row { return append(r[:99:99], r[100:]...) }, 100},
		{"removed and counted anew", func(r []Row) []Row {
			r = append(r[:99:99], r[100:]...)
			for i := range r[99:] {
				r[99+i].Seq--
			}
			return r
		}, 100},
		{"the beginning removed", func(r []Row) []Row { return r[1:] }, 1},
		{"two exchanged", func(r []Row) []Row {
			r[3].Entry, r[4].Entry = r[4].Entry, r[3].Entry
			return r
		}, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := chainOf(t, n)
			m.rows = tt.do(m.rows)
			report, err := Verify(t.Context(), m)
			if tt.want == 0 {
				if err != nil || report.Rows != n || report.Last != m.rows[n-1].Hash {
					t.Errorf("got %+v, %v", report, err)
				}
				return
			}
			broken, ok := errors.AsType[*BrokenError](err)
			if !ok || broken.Seq != tt.want {
				t.Errorf("got %v, want row %d to be broken", err, tt.want)
			}
		})
	}
}

// Where a row ends and the next field begins must not be a matter of taste.
func FuzzCanonicalRow(f *testing.F) {
	f.Add("a", "b", "c", "d", "a\",\"b", "", "c", "d")
	f.Add("a", "", "", "", "", "a", "", "")
	f.Add("\xff", "x\x00", "", "", "\xfe", "x", "", "")
	f.Fuzz(func(t *testing.T, a1, a2, a3, a4, b1, b2, b3, b4 string) {
		a, b := Next(0, "", Entry{Actor: a1, Action: a2, Object: a3, Detail: a4}), Next(0, "", Entry{Actor: b1, Action: b2, Object: b3, Detail: b4})
		if (a.Entry == b.Entry) != (a.Hash == b.Hash) {
			t.Errorf("%+v and %+v: equal texts must have equal hashes, and only they", a, b)
		}
	})
}

func TestNextCleans(t *testing.T) {
	r := Next(0, "", Entry{Actor: "a\x00b\xff", Detail: strings.Repeat("ü", 4000)})
	if r.Actor != "a\uFFFDb\uFFFD" || len(r.Detail) > maxField || strings.Contains(r.Detail, "\uFFFD") {
		t.Errorf("got %q and %d bytes", r.Actor, len(r.Detail))
	}
}
