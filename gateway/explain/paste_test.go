package explain

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseReply(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Reply
		err        string
	}{
		{"as curl prints it", "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nX-A: 1\r\nX-A:  2 \r\n\r\n{\"a\":\n\n1}", Reply{Status: 503, Headers: Headers{"Retry-After": {"2"}, "X-A": {"1", "2"}}, Body: "{\"a\":\n\n1}"}, ""},
		{"a status alone", "502", Reply{Status: 502}, ""},
		{"HTTP/2 has no words", "HTTP/2 429 \nretry-after: 0\n", Reply{Status: 429, Headers: Headers{"retry-after": {"0"}}}, ""},
		{"a body without fields", "200\n\nhello", Reply{Status: 200, Body: "hello"}, ""},
		{"nothing", "", Reply{}, "line 1: must be a status"},
		{"an informational status", "101", Reply{}, `from 200 to 599, got "101"`},
		{"words", "OK then", Reply{}, `got "OK"`},
		{"a field without a colon", "503\nRetry-After", Reply{}, `line 2: must be Name: value, got "Retry-After"`},
		{"a name with a blank", "503\nX: 1\nRetry After: 1", Reply{}, "line 3"},
		{"too long", "200\n\n" + strings.Repeat("x", MaxPaste), Reply{}, "at most 64 KiB, got 65 KiB"},
	} {
		got, err := ParseReply(tt.text)
		switch {
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		case tt.err == "" && (err != nil || !reflect.DeepEqual(got, tt.want)):
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	h, err := ParseFields("Idempotency-Key: k\n\nX-Tenant: gold\n")
	if err != nil || !reflect.DeepEqual(h, Headers{"Idempotency-Key": {"k"}, "X-Tenant": {"gold"}}) {
		t.Errorf("%v, %v", h, err)
	}
	if _, err := ParseFields("a: 1\nb"); err == nil || !strings.Contains(err.Error(), "headers: line 2") {
		t.Errorf("%v", err)
	}
}

// What is taken once is a sample that the engine takes, and has no more in it than
// was pasted.
func FuzzParseReply(f *testing.F) {
	f.Add("HTTP/1.1 503 x\nRetry-After: 2\n\nbody")
	f.Add("503")
	f.Add("HTTP/1.1\n\n")
	f.Add("200\n: \n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReply(text)
		if err != nil {
			return
		}
		if err := r.check(""); err != nil {
			t.Fatalf("taken, and then refused: %v", err)
		}
		n := len(r.Body)
		for name, values := range r.Headers {
			for _, v := range values {
				n += len(name) + len(v)
				if strings.ContainsAny(name+v, "\n") {
					t.Fatalf("a field of several lines: %q: %q", name, v)
				}
			}
		}
		if n > len(text) {
			t.Fatalf("%d bytes out of %d", n, len(text))
		}
	})
}
