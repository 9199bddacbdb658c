package conf

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// decoded splits text and hands the first document's root to decode; it returns
// all that was said, one a line, without the file's name.
func decoded(t *testing.T, text string, decode func(Node)) string {
	t.Helper()
	var log Log
	docs := Split(File{Name: "f.yaml", Data: []byte(text)}, &log)
	if len(docs) > 0 && decode != nil {
		decode(docs[0].Root)
	}
	return strings.ReplaceAll(log.All().Error(), "f.yaml:", "")
}

func want(t *testing.T, got string, lines ...string) {
	t.Helper()
	if all := strings.Join(lines, "\n"); got != all {
		t.Errorf("got\n%s\nwant\n%s", got, all)
	}
}

func TestSplitRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"an alias", "a: &x 1\nb: *x\n", "1:4: a: must have no anchor, got &x (aliases are not allowed)\n2:4: b: must be written out, got the alias *x (aliases are not allowed)"},
		{"a merge", "a: {b: 1}\nc:\n  <<: {d: 1}\n", "3:3: c: must have plain words as keys, got <<"},
		{"a tag", "a: !!binary aGk=\n", "1:4: a: must have no tag, got !!binary"},
		{"a key twice", "a: 1\nb: 2\na: 3\n", "3:1: a: must stand once, got it again (first in line 1)"},
		{"a key twice, deep", "r:\n  - {x: 1, x: 2}\n", "2:12: r[0].x: must stand once, got it again (first in line 2)"},
		{"a map as a key", "{a: 1}: 2\n", "1:1: must have plain words as keys, got a map"},
		{"no key at all", "~: 2\n", "1:1: must have plain words as keys, got nothing"},
		{"a tab", "a:\n\tb: 1\n", "2:1: must be YAML: found character that cannot start any token"},
		{"a bracket that stays open", "a: [1, 2\n", "1:1: must be YAML: did not find expected ',' or ']'"},
		{"a zero byte", "a: 1\nb: \x00\n", "2:4: must be text, got a zero byte"},
		{"too deep", strings.Repeat("[", 40) + strings.Repeat("]", 40), "1:34: " + strings.Repeat("[0]", 33) + ": must be nested at most 32 deep"},
		{"far too deep", strings.Repeat("[", 200_000), "1:1: must be nested at most 32 deep"},
		{"too big", strings.Repeat("#", MaxBytes+1), "1:1: must be at most 256 KiB, got 257 KiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { want(t, decoded(t, tt.text, nil), tt.want) })
	}
}

func TestSplitReadsAllDocuments(t *testing.T) {
	var log Log
	text := "# only a comment\n---\napiVersion: v\nkind: A\nname: one\n---\n---\nkind: B\n"
	docs := Split(File{"f.yaml", []byte(text)}, &log)
	if len(docs) != 2 || docs[0].APIVersion != "v" || docs[0].Kind != "A" || docs[0].Name != "one" || docs[1].Kind != "B" || docs[1].Root.Line() != 8 {
		t.Errorf("got %+v, want A and B", docs)
	}
	want(t, log.All().Error())
	if got := OfKind(docs, "v", "A"); len(got) != 1 || got[0].Name != "one" {
		t.Errorf("OfKind gave %+v", got)
	}
}

// The documents before a syntax error are read all the same: all mistakes at once.
func TestSplitReadsUpToASyntaxError(t *testing.T) {
	var log Log
	docs := Split(File{"f.yaml", []byte("kind: A\n---\na: [\n")}, &log)
	if len(docs) != 1 || len(log.Errors()) != 1 {
		t.Errorf("got %d documents and %v", len(docs), log.All())
	}
}

func TestMapRefusesUnknownKeys(t *testing.T) {
	got := decoded(t, "max_retires: 2\nzzz: 1\n", func(n Node) {
		m := n.Map()
		m.Get("max_retries").Int(0, 0, 5)
		m.Need("name").Name()
		m.Done()
	})
	want(t, got,
		"1:1: name: must be given [E-MISSING]",
		"1:1: max_retires: must be a known field, got max_retires (did you mean max_retries?) [E-UNKNOWN]",
		"2:1: zzz: must be a known field, got zzz (known here: max_retries, name) [E-UNKNOWN]")
}

// A decoder that meets the wrong shape goes on, and says it once.
func TestWrongShapes(t *testing.T) {
	got := decoded(t, "a: [1]\nb: {c: 1}\nd: x\n", func(n Node) {
		m := n.Map()
		inner := m.Get("a").Map()
		inner.Need("x").Str("")
		inner.Done()
		m.Get("b").Str("")
		m.Get("d").List()
		m.Get("none").Map().Get("deeper").Map().Need("x").Int(1, 1, 2)
		m.Done()
	})
	want(t, got, "1:4: a: must be a map, got a list", "2:4: b: must be a string, got a map", "3:4: d: must be a list, got x")
}

// scalar reads "v: text" and returns the value and what was said.
func scalar[T any](t *testing.T, text string, get func(Node) T) (v T, said string) {
	t.Helper()
	said = decoded(t, "v: "+text+"\n", func(n Node) { v = get(n.Map().Get("v")) })
	return v, strings.TrimPrefix(said, "1:4: v: ")
}

func check[T comparable](t *testing.T, get func(Node) T, tests []struct {
	in   string
	want T
	said string
}) {
	t.Helper()
	for _, tt := range tests {
		if v, said := scalar(t, tt.in, get); v != tt.want || said != tt.said {
			t.Errorf("%s: got %v, %q, want %v, %q", tt.in, v, said, tt.want, tt.said)
		}
	}
}

func TestDuration(t *testing.T) {
	const no = "must be a duration such as 800ms, 2s or 5m, got "
	check(t, func(n Node) time.Duration { return n.Duration(7, time.Millisecond, 10*time.Minute) }, []struct {
		in   string
		want time.Duration
		said string
	}{
		{"800ms", 800 * time.Millisecond, ""},
		{"2s", 2 * time.Second, ""},
		{`"10m"`, 10 * time.Minute, ""},
		{"800", 7, no + "800 (the unit is missing)"},
		{"0.8s", 7, no + "0.8s"},
		{"1h", 7, no + "1h"},
		{"1m30s", 7, no + "1m30s"},
		{"-1s", 7, no + "-1s"},
		{`""`, 7, no + `""`},
		{"0s", 7, no + "0s"},
		{"08s", 7, no + "08s"},
		{"~", 7, no + "nothing"},
		{".nan", 7, no + ".nan"},
		{"1e400", 7, no + "1e400"},
		{"11m", 7, "must be 1ms to 10m, got 11m"},
		{"9223372036854775807m", 7, "must be 1ms to 10m, got 9223372036854775807m"},
		{"99999999999999999999s", 7, "must be 1ms to 10m, got 99999999999999999999s"},
	})
}

func TestSpan(t *testing.T) {
	if d, said := scalar(t, "30d", func(n Node) time.Duration { return n.Span(0, time.Minute, 366*24*time.Hour) }); d != 720*time.Hour || said != "" {
		t.Errorf("got %v, %q", d, said)
	}
}

func TestPPM(t *testing.T) {
	const no = `must be a share such as "25%", got `
	check(t, func(n Node) int64 { return n.PPM(-7) }, []struct {
		in   string
		want int64
		said string
	}{
		{`"25%"`, 250_000, ""}, {"25%", 250_000, ""}, {`"0.25%"`, 2500, ""}, {`"0%"`, 0, ""}, {`"100%"`, 1_000_000, ""},
		{`"0.0001%"`, 1, ""}, {`"1.50000%"`, 15_000, ""},
		{"0.25", -7, no + `0.25 (write "0.25%" if that many percent are meant)`},
		{"25", -7, no + `25 (write "25%" if that many percent are meant)`},
		{`"100.0001%"`, -7, `must be 0% to 100%, got "100.0001%"`},
		{`"-1%"`, -7, `must be 0% to 100%, got "-1%"`},
		{`"0.00001%"`, -7, `must have at most 4 decimal places, got "0.00001%"`},
		{`".5%"`, -7, no + `".5%"`}, {"~", -7, no + "nothing"}, {".nan", -7, no + ".nan"},
	})
}

// C17: a share that is not given is a mistake that names the field, and not 0 or all.
func TestChaos_C17(t *testing.T) {
	got := decoded(t, "sample: {key: attempt}\n", func(n Node) {
		m := n.Map().Need("sample").Map()
		m.Get("key").Enum("attempt", "attempt", "request")
		m.Need("percent").PPM(0)
		m.Done()
	})
	want(t, got, "1:9: sample.percent: must be given [E-MISSING]")
}

// C18: a bare number is refused, the two shares it may have meant are taken.
func TestChaos_C18(t *testing.T) {
	for in, ppm := range map[string]int64{`"0.25%"`: 2500, `"25%"`: 250_000} {
		if v, said := scalar(t, in, func(n Node) int64 { return n.PPM(-1) }); v != ppm || said != "" {
			t.Errorf("%s: got %d, %q", in, v, said)
		}
	}
	if _, said := scalar(t, "0.25", func(n Node) int64 { return n.PPM(-1) }); said == "" {
		t.Error("0.25 was taken")
	}
}

func TestInt(t *testing.T) {
	check(t, func(n Node) int64 { return n.Int(-7, 0, 5) }, []struct {
		in   string
		want int64
		said string
	}{
		{"0", 0, ""}, {"5", 5, ""},
		{"9", -7, "must be 0 to 5, got 9"},
		{"-1", -7, "must be 0 to 5, got -1"},
		{"99999999999999999999", -7, "must be 0 to 5, got 99999999999999999999"},
		{"2.0", -7, "must be a whole number, got 2.0"},
		{"0x2", -7, "must be a whole number, got 0x2"},
		{"1_0", -7, "must be a whole number, got 1_0"},
		{`"2"`, -7, `must be a whole number, got "2"`},
		{".inf", -7, "must be a whole number, got .inf"},
		{"null", -7, "must be a whole number, got nothing"},
		{"[2]", -7, "must be a whole number, got a list"},
	})
}

func TestDecimal(t *testing.T) {
	check(t, func(n Node) int64 { return n.Decimal(-7, 3, 0, 100_000) }, []struct {
		in   string
		want int64
		said string
	}{
		{"99.9", 99_900, ""}, {"0.3", 300, ""}, {"100", 100_000, ""}, {"99.950", 99_950, ""},
		{"99.9999", -7, "must have at most 3 decimal places, got 99.9999"},
		{"100.001", -7, "must be 0 to 100, got 100.001"},
		{".nan", -7, "must be a number, got .nan"},
		{"1e2", -7, "must be a number, got 1e2"},
		{`"99.9"`, -7, `must be a number, got "99.9"`},
	})
}

func TestBool(t *testing.T) {
	for in, said := range map[string]string{"true": "", "false": "", "yes": "must be true or false, got yes", "1": "must be true or false, got 1", `"true"`: `must be true or false, got "true"`} {
		v, got := scalar(t, in, func(n Node) bool { v, _ := n.Bool(false); return v })
		if got != said || v != (in == "true") {
			t.Errorf("%s: got %v, %q, want %q", in, v, got, said)
		}
	}
}

func TestStrings(t *testing.T) {
	check(t, func(n Node) string { return n.Str("def") }, []struct{ in, want, said string }{
		{"abc", "abc", ""}, {`"12"`, "12", ""}, {"2024-06-15", "2024-06-15", ""},
		{"12", "def", "must be a string, got 12 (put it in quotes)"},
		{"true", "def", "must be a string, got true (put it in quotes)"},
		{`" "`, "def", `must be a string that is not empty, got " "`},
		{"~", "def", "must be a string, got nothing"},
	})
	check(t, func(n Node) string { return n.Name() }, []struct{ in, want, said string }{
		{"order-create", "order-create", ""},
		{"Order", "", "must be a name of lower-case letters, digits, '-', '_' and '.', at most 63 long, got Order"},
		{"../x", "", "must be a name of lower-case letters, digits, '-', '_' and '.', at most 63 long, got ../x"},
	})
	check(t, func(n Node) string { return n.Enum("pass_through", "pass_through", "return_503") }, []struct{ in, want, said string }{
		{"return_503", "return_503", ""},
		{"return503", "pass_through", "must be pass_through or return_503, got return503 (did you mean return_503?)"},
	})
	check(t, func(n Node) int64 { return n.Size(7, 1<<20, 1<<40) }, []struct {
		in   string
		want int64
		said string
	}{{"256MiB", 256 << 20, ""}, {"1GB", 7, "must be a size such as 256MiB, got 1GB (units are KiB, MiB and GiB)"}, {"9999999999GiB", 7, "must be 1 MiB to 1048576 MiB, got 9999999999GiB"}})
}

func TestMistakesAreSortedByPlace(t *testing.T) {
	var log Log
	log.Add("b.yaml", 1, 1, "x")
	log.Add("a.yaml", 10, 1, "x")
	log.Add("a.yaml", 9, 2, "x")
	log.Add("a.yaml", 9, 1, "x").IsWarning = true
	if got := log.All().Error(); got != "a.yaml:9:1: x\na.yaml:9:2: x\na.yaml:10:1: x\nb.yaml:1:1: x" {
		t.Errorf("got\n%s", got)
	}
	if len(log.Errors()) != 3 || len(log.Warnings()) != 1 || log.Err() == nil {
		t.Errorf("%d errors, %d warnings", len(log.Errors()), len(log.Warnings()))
	}
}

// Whatever the bytes are, reading ends, every mistake lies within the file, and
// what was accepted has no key twice and no alias.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"a: 1\n---\nb: [x, {c: d}]\n", "a: &x [*x]\n", "? [a]\n: b\n", "a: 1\na: 2\n", "- - - -\n", "\ta", "a: |\n  x\n", "%YAML 1.1\n---\n", "a: !!str 1", "<<: x", "\"\\x\": y", "\xff\xfe", "a: 'b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var log Log
		docs := Split(File{"f", data}, &log)
		for _, d := range docs {
			if log.Err() == nil {
				walk(t, d.Root, 0)
			}
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") +
			strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") + 1
		for _, m := range log.All() {
			if m.Line < 1 || m.Line > lines || m.Col < 1 || m.Text == "" {
				t.Fatalf("%v is no place in %d lines", m, lines)
			}
		}
		if !slices.IsSortedFunc(log.All(), func(a, b *Mistake) int { return (a.Line-b.Line)*100_000 + a.Col - b.Col }) {
			t.Fatal("mistakes are not sorted")
		}
	})
}

func walk(t *testing.T, n Node, depth int) {
	if depth > MaxDepth {
		t.Fatal("too deep")
	}
	if n.IsList() {
		for _, item := range n.List() {
			walk(t, item, depth+1)
		}
		return
	}
	if !n.IsMap() {
		if strings.HasPrefix(n.Got(), "an alias") {
			t.Fatal("an alias was accepted")
		}
		return
	}
	seen := map[string]bool{}
	for _, e := range n.Entries() {
		if seen[e.Key] {
			t.Fatalf("key %q stands twice", e.Key)
		}
		seen[e.Key] = true
		walk(t, e.Value, depth+1)
	}
}

func TestJSON(t *testing.T) {
	tests := []struct{ text, want string }{
		{`{v: {}}`, `{}`}, {`{v: {"b": [1, "x", true, null], "a": 0.5}}`, `{"a":0.5,"b":[1,"x",true,null]}`}, {`{v: text}`, `"text"`}, {`{w: 1}`, `null`},
	}
	for _, tt := range tests {
		said := decoded(t, tt.text, func(n Node) {
			if got := n.Map().Get("v").JSON(); got != tt.want {
				t.Errorf("%s is %s, want %s", tt.text, got, tt.want)
			}
		})
		if said != "" {
			t.Errorf("%s: %s", tt.text, said)
		}
	}
	if said := decoded(t, "{v: {1: 2}}", func(n Node) { n.Map().Get("v").JSON() }); !strings.Contains(said, "must be JSON") {
		t.Errorf("a map by numbers: %q", said)
	}
}
