package web

import (
	"html/template"
	"strings"
	"testing"
	"testing/fstest"
)

func TestUnitsOfATemplate(t *testing.T) {
	tests := []struct {
		name, src string
		keys      []string
	}{
		{"a text in a tag", `<h2>Budget left</h2>`, []string{"Budget left"}},
		{"blanks are folded", "<p>\n  Budget\n\tleft </p>", []string{"Budget left"}},
		{"the thin space can be seen", `<p>last 30{{"\u202f"}}min</p>`, []string{"last 30~min"}},
		{"a value is a mark", `<p>{{.N}} of {{slo .M}} failed</p>`, []string{"{0} of {1} failed"}},
		{"a value alone says nothing", `<p>{{.N}}</p>`, nil},
		{"a template is a mark", `<p>since {{template "time" .At}}, last seen {{template "time" .Last}}</p>`, []string{"since {0}, last seen {1}"}},
		{"code is a mark, whatever it holds", `<p>Run <code>a {{if .B}}b{{end}} <c></code> first.</p>`, []string{"Run {0} first."}},
		{"a tag inside a sentence", `<p>See <a href="/gate">the gate</a> first.</p>`, []string{"See <1>the gate</1> first."}},
		{"tags without words around them are units of their own", `<p><b>One</b> <a>Two</a></p>`, []string{"One", "Two"}},
		{"a block of words ends a unit", `<p>One.{{if .A}} Two.{{else}} Three.{{end}} Four.</p>`, []string{"One.", "Two.", "Three.", "Four."}},
		{"a block without words is a mark", `<p>in force: {{range $i, $p := .L}}{{if $i}}, {{end}}<a href="{{.}}">{{.}}</a>{{end}}</p>`, []string{"in force: {0}"}},
		{"a variable stays where it is", `<p>One {{$x := .A}} two</p>`, []string{"One", "two"}},
		{"spoken attributes", `<input aria-label="Find" value="no" placeholder="{{.Name}} as CSV" data-x="no">`, []string{"Find", "{0} as CSV"}},
		{"attributes with blocks", `<a title="{{if .A}}One{{end}}" class="two{{if .B}} three{{end}}"{{if .C}} aria-label="Four"{{end}}>`, []string{"One", "Four"}},
		{"attributes of a tag inside a sentence", `<p>See <a title="More">it</a> now</p>`, []string{"More", "See <1>it</1> now"}},
		{"no text: script, style, what is typed", `<script>a b</script><style>c d</style><textarea placeholder="Say">e f</textarea><pre>g h</pre>`, []string{"Say"}},
		{"entities are letters", `<p>control’s &amp; ours</p>`, []string{"control’s & ours"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var keys []string
			out, err := rewrite(tt.src, false, func(key string) (string, bool) { keys = append(keys, key); return key, true })
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(keys, "|") != strings.Join(tt.keys, "|") {
				t.Errorf("got %q, want %q", keys, tt.keys)
			}
			if got, want := keyOf(plain(out)), keyOf(plain(tt.src)); got != want {
				t.Errorf("with itself as its translation it is\n%s, want\n%s", got, want)
			}
		})
	}
}

// plain is a source with the spellings that mean the same made one.
func plain(src string) string {
	return strings.NewReplacer("&#34;", `"`, `{{"\u202f"}}`, thinSpace, "&amp;", "&", "&#123;", "{", "&lt;", "<", "&gt;", ">").Replace(src)
}

func TestATranslationPutsMarksInItsOwnOrder(t *testing.T) {
	src := `<p>{{.N}} of <a href="/x">{{.M}} runs</a> failed in <code>a</code>.</p>`
	got, err := rewrite(src, false, func(string) (string, bool) { return "在 {2} 的 <1>{1} 次运行</1>中有 {0} 次失败。", true })
	if want := `<p>在 <code>a</code> 的 <a href="/x">{{.M}} 次运行</a>中有 {{.N}} 次失败。</p>`; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestATranslationIsTextAndNothingElse(t *testing.T) {
	src := `<p title="Two">One {{.N}}</p>`
	for _, evil := range []string{`<script>alert(1)</script> {0}`, `{{.Secret}} {0}`, `"><img src=x onerror=y> {0}`, `{0} {{"{{"}}`, `{0}</p><p>`} {
		out, err := rewrite(src, false, func(string) (string, bool) { return evil, true })
		if err != nil {
			continue // refused, which is as good
		}
		tmpl, err := template.New("").Parse(out)
		if err != nil {
			t.Errorf("%q made an action: %v", evil, err)
			continue
		}
		var b strings.Builder
		err = tmpl.Execute(&b, map[string]string{"N": "7", "Secret": "secret"})
		if got := b.String(); err != nil || strings.Contains(got, "secret") || strings.Count(got, "<") != 2 || strings.Contains(got, `""`) {
			t.Errorf("%q became %s, %v", evil, got, err)
		}
	}
}

func TestWhatStaysEnglishSaysSo(t *testing.T) {
	src := `<h1>{{.A}}</h1><p title="{{.A}}">{{.B}} {{.C}}</p><option>{{.A}}</option><text>{{.A}}<title>{{.A}}</title></text>{{with .A}}<b>{{.}}</b>{{end}}`
	out, err := rewrite(src, true, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := template.New("").Funcs(template.FuncMap{"shown": shown}).Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	err = tmpl.Execute(&b, map[string]any{"A": "the <i>gate</i> said no", "B": "order", "C": 7})
	en := `<span lang="en">the &lt;i&gt;gate&lt;/i&gt; said no</span>`
	plain := `the &lt;i&gt;gate&lt;/i&gt; said no`
	want := `<h1>` + en + `</h1><p title="` + plain + `">order 7</p><option>` + plain + `</option><text>` + plain + `<title>` + plain + `</title></text><b>` + en + `</b>`
	if got := b.String(); err != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	for text, mark := range map[string]bool{"order is late": true, "decided by 断路器": false, "order": false, "20 300": false, "5 s": false, "order，12 s": false, "30 d up to now": true} {
		if _, marked := shown(text).(template.HTML); marked != mark {
			t.Errorf("%q is marked %v", text, marked)
		}
	}
}

func TestATranslationNamesEveryMarkOnce(t *testing.T) {
	src := `<p>{{.N}} of <b>them</b></p>`
	for _, bad := range []string{"其中 <1>它们</1>", "{0} 之 {0} <1></1>", "{1} <1></1> {0}", "{0} <2></2>", "{0} </1><1>", "{0} <1>", "{x} <1></1>", "{0"} {
		if out, err := rewrite(src, false, func(key string) (string, bool) { return bad, true }); err == nil {
			t.Errorf("%q was taken: %s", bad, out)
		}
	}
}

func TestMistakesOfACatalogueAreToldAtTheirPlace(t *testing.T) {
	files := fstest.MapFS{"catalogue/xx/a.txt": {Data: []byte("# remark\nOne\n\t一\n\nOne\n\t二\nTwo  words\n\t三\nThree\nFour\n\t四\n\t五\n Six\nSeven")}}
	_, err := readCatalogue(files, "xx", "X")
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"xx/a.txt:6: \"One\" is translated already, at xx/a.txt:2", "xx/a.txt:7: must be \"Two words\"", "xx/a.txt:10: must be the translation of \"Three\"", "xx/a.txt:14"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

func FuzzRewritingChangesNothingButWords(f *testing.F) {
	for _, s := range []string{`<p>a {{if .X}}b{{else}}<i>c</i>{{end}}</p>`, `{{"}}"}}<a title="{{.T}} x`, "<code>{{", "</p <b>x</b> y", `<p>{{/* }} */}} a</p>`, "<!-- a --> b"} {
		f.Add(s)
	}
	files, _ := templateFiles.ReadDir("templates")
	for _, e := range files {
		body, _ := templateFiles.ReadFile("templates/" + e.Name())
		f.Add(string(body))
	}
	f.Fuzz(func(t *testing.T, src string) {
		var joined strings.Builder
		for _, p := range pieces(src) {
			joined.WriteString(p.src)
		}
		if joined.String() != src {
			t.Fatalf("the pieces of %q are %q", src, joined.String())
		}
		// A text that has been through is what comes out again.
		same := func(key string) (string, bool) { return strings.ReplaceAll(key, "~", thinSpace), true }
		once, err := rewrite(src, false, same)
		if err != nil {
			return // braces in texts are refused
		}
		if twice, err := rewrite(once, false, same); err != nil || twice != once {
			t.Fatalf("%q became %q, then %q, %v", src, once, twice, err)
		}
	})
}
