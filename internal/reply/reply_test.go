package reply

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnswersAreKeptByNobody(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"json":    func(w http.ResponseWriter) { JSON(w, http.StatusCreated, map[string]int{"n": 1}) },
		"problem": func(w http.ResponseWriter) { Problem(w, http.StatusConflict, "taken", "it is taken") },
		"scope":   OutOfScope,
		"away":    Away,
	} {
		w := httptest.NewRecorder()
		answer(w)
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control is %q", name, got)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %q is no JSON", name, w.Body)
		}
	}
}

func TestProblemHasCodeAndStatus(t *testing.T) {
	w := httptest.NewRecorder()
	Problem(w, http.StatusConflict, "taken", "it is taken")
	const want = `{"type":"about:blank","title":"Conflict","status":409,"code":"taken","detail":"it is taken"}` + "\n"
	if w.Code != http.StatusConflict || w.Body.String() != want || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
}

// A number that JSON does not have must not come out as half an answer of 200.
func TestWhatIsNoJSONIsAProblem(t *testing.T) {
	w := httptest.NewRecorder()
	JSON(w, http.StatusOK, math.NaN())
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"code":"internal"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestDecodeTakesWhatIsKnown(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"n":1}`:       true,
		`{"n":1,"m":2}`: false,
		`{"n":"one"}`:   false,
		``:              false,
		`{"n":1`:        false,
		`{"s":"` + strings.Repeat("x", most) + `"}`: false,
	} {
		w := httptest.NewRecorder()
		var in struct {
			N int    `json:"n"`
			S string `json:"s"`
		}
		got := Decode(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), &in)
		if got != ok || !ok && (w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":"bad_body"`)) {
			t.Errorf("%.20q: %t, %d %s", body, got, w.Code, w.Body)
		}
	}
}
