package settings_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/settings"
)

type change struct {
	Name *string            `json:"name"`
	N    *int               `json:"n"`
	On   *bool              `json:"on"`
	D    *settings.Duration `json:"d"`
}

func post(target, kind, body string, apply func(change) error) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", target, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	settings.Handler(func() any { return "shown" }, apply).ServeHTTP(w, r)
	return w
}

// JSON, a form and a query say the same.
func TestThreeWaysToSay(t *testing.T) {
	for _, tt := range []struct{ target, kind, body string }{
		{"/", "application/json", `{"name":"7up","n":3,"on":true,"d":"1.5s"}`},
		{"/", "application/x-www-form-urlencoded", `{"name":"7up","n":3,"on":true,"d":"1.5s"}`},
		{"/", "application/x-www-form-urlencoded; charset=utf-8", `name=7up&n=3&on=true&d=1.5s`},
		{"/?name=7up&n=3&on=true&d=1.5s", "", ``},
		{"/?name=7up&n=3", "application/x-www-form-urlencoded", `on=true&d=1.5s`},
	} {
		var got []byte
		w := post(tt.target, tt.kind, tt.body, func(c change) (err error) {
			got, err = json.Marshal(c)
			return err
		})
		const want = `{"name":"7up","n":3,"on":true,"d":"1.5s"}`
		if w.Code != 200 || string(got) != want || strings.TrimSpace(w.Body.String()) != `"shown"` {
			t.Errorf("%s %s: %d, %s, %s: want %s", tt.target, tt.body, w.Code, w.Body, got, want)
		}
	}
}

func TestNothingIsApplied(t *testing.T) {
	for _, tt := range []struct{ target, body, want string }{
		{"/", `{"n":"x"}`, "n: want a whole number, got string"},
		{"/", `{"n":1.5}`, "n: want a whole number, got number 1.5"},
		{"/", `{"on":1}`, "on: want true or false, got number"},
		{"/?name=7", ``, "name: want a text, got number"},
		{"/?d=1", ``, "d: want a duration such as 1.5s or 200ms, got number"},
		{"/", `{"m":1}`, `unknown field "m"`},
		{"/", `{"n":1}{}`, "after the JSON object"},
		{"/", `{"n":1}]`, "after the JSON object"},
		{"/", `[1]`, "cannot read the settings: want a JSON object, got array"},
		{"/", `{}`, "nothing to set"},
		{"/?n=1", `{"n":2}`, "not in both"},
		{"/?n=1&n=2", ``, "n is given 2 times"},
		{"/?%zz=1", ``, "invalid URL escape"},
	} {
		w := post(tt.target, "application/json", tt.body, func(change) error {
			t.Errorf("%s %s: it was applied", tt.target, tt.body)
			return nil
		})
		if line := w.Body.String(); w.Code != 400 || !strings.Contains(line, tt.want) || strings.Count(line, "\n") != 1 {
			t.Errorf("%s %s: %d, %q: want one line with %q", tt.target, tt.body, w.Code, line, tt.want)
		}
	}
}

func TestRefusedChange(t *testing.T) {
	w := post("/?n=1", "", "", func(change) error { return errors.New("n = 1: must be even") })
	if w.Code != 400 || w.Body.String() != "n = 1: must be even; nothing was changed\n" {
		t.Errorf("%d, %q", w.Code, w.Body)
	}
}

func TestShare(t *testing.T) {
	for text, want := range map[string]settings.Share{"1%": 0.01, "0.01": 0.01, "10 %": 0.1, "0": 0, "100%": 1, "1": 1} {
		var got settings.Share
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v, %v: want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "2", "101%", "-1%", "NaN", "1 %%"} {
		if err := new(settings.Share).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
