package token_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/server/token"
)

const secret = "a secret of shop: 0123456789"

func hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

var tokens = fmt.Sprintf(`
tokens:
  - name: shop
    sha256: %s
    keys: ["user:*", "cart:?"]
  - name: operator
    token: the operator's own secret
    allow: [decide, lease, debug]
  - name: watcher
    token: who may look at one thing
    keys: ["user:1"]
    allow: [debug]
  - name: nobody
    token: who may nothing at all...
    keys: []
`, hashed(secret))

func TestAuthorize(t *testing.T) {
	set, err := token.Parse("tokens.yaml", []byte(tokens))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rule          string
		authorization string
		action        token.Action
		key           string
		want          error
	}{
		{"a key that a glob matches", "Bearer " + secret, token.Decide, "user:42", nil},
		{"the other glob", "Bearer " + secret, token.Lease, "cart:7", nil},
		{"a glob is of the whole key", "Bearer " + secret, token.Decide, "cart:77", token.ErrForbidden},
		{"a key of others", "Bearer " + secret, token.Decide, "admin", token.ErrForbidden},
		{"not allowed unless it is said", "Bearer " + secret, token.Debug, "user:42", token.ErrForbidden},
		{"all keys at once are more than some", "Bearer who may look at one thing", token.Debug, "", token.ErrForbidden},
		{"a list that leaves out decide", "Bearer who may look at one thing", token.Decide, "user:1", token.ErrForbidden},
		{"a list that has debug", "Bearer who may look at one thing", token.Debug, "user:1", nil},
		{"no keys said: all", "Bearer the operator's own secret", token.Debug, "", nil},
		{"an empty list of keys: none", "Bearer who may nothing at all...", token.Decide, "a", token.ErrForbidden},
		{"the scheme in any case", "bearer the operator's own secret", token.Decide, "a", nil},
		{"nothing", "", token.Decide, "user:42", token.ErrUnknown},
		{"another secret", "Bearer " + secret + "!", token.Decide, "user:42", token.ErrUnknown},
		{"the hash is not the secret", "Bearer " + hashed(secret), token.Decide, "user:42", token.ErrUnknown},
		{"another scheme", "Basic " + secret, token.Decide, "user:42", token.ErrUnknown},
		{"no scheme", secret, token.Decide, "user:42", token.ErrUnknown},
		{"an empty secret", "Bearer ", token.Decide, "user:42", token.ErrUnknown},
	} {
		if err := set.Find(tt.authorization).Authorize(tt.action, tt.key); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.rule, err, tt.want)
		}
	}
}

// What is wrong is told with its place, all of it at once, and never shows a
// secret.
func TestWrong(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "t.yaml:1:1: want one document, beginning with tokens:"},
		{"tokens:", "t.yaml:1:7: tokens: want a list, a line with - for each; got nothing"},
		{"{}", "t.yaml:1:1: tokens: must be given; [] if there are none"},
		{"keys: []", "t.yaml:1:1: keys: unknown field; known are tokens"},
		{"tokens: [{token: 0123456789abcdef}]", "t.yaml:1:10: tokens[0].name: must be given"},
		{"tokens: [{name: a}]", "t.yaml:1:10: tokens[0].token: must have either this or sha256"},
		{"tokens: [{name: a, token: 0123456789abcdef, sha256: " + hashed("") + "}]", "t.yaml:1:27: tokens[0].token: must have either this or sha256"},
		{"tokens: [{name: a, token: hush}]", "t.yaml:1:27: tokens[0].token: must have at least 16 bytes"},
		{"tokens: [{name: a, sha256: hush}]", "t.yaml:1:28: tokens[0].sha256: must be 64 hexadecimal digits"},
		{"tokens: [{name: a, sha256: " + hashed("")[2:] + "}]", "t.yaml:1:28: tokens[0].sha256: must be 64 hexadecimal digits"},
		{"tokens: [{name: a, token: 0123456789abcdef, allow: [shout]}]", "t.yaml:1:53: tokens[0].allow[0]: must be decide, lease, debug, metrics or admin"},
		{"tokens:\n- {name: a, token: 0123456789abcdef}\n- {name: a, token: 0123456789abcdeg}", "t.yaml:3:10: tokens[1].name: must differ from all others"},
		{"tokens:\n- {name: a, token: 0123456789abcdef}\n- {name: b, sha256: " + hashed("0123456789abcdef") + "}", "t.yaml:3:3: tokens[1]: must differ from a: the secret is the same"},
		{"tokens: [{name: a}, {name: b}]", "t.yaml:1:10: tokens[0].token: must have either this or sha256\nt.yaml:1:21: tokens[1].token: must have either this or sha256"},
		{"tokens: [" + strings.Repeat("{},", 1001) + "]", "t.yaml:1:9: tokens: must be at most 1000"},
		{"#" + strings.Repeat("x", 1<<20), "t.yaml:1:1: the file is larger than 1048576 bytes"},
	} {
		set, err := token.Parse("t.yaml", []byte(tt.text))
		if err == nil || set != nil || err.Error() != tt.want || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.60s: %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if _, err := token.Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: want that there is no file", err)
	}
	if err := os.WriteFile(path, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := token.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var g token.Guard
	ask := func(authorization string) (err error) {
		r := httptest.NewRequest("POST", "/rate/a", nil)
		r.Header.Set("Authorization", authorization)
		g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			err = g.Authorize(r, token.Decide, "a")
		})).ServeHTTP(httptest.NewRecorder(), r)
		return err
	}
	if err := ask(""); err != nil {
		t.Errorf("no tokens: %v: want all allowed", err)
	}
	g.Use(set)
	if err := ask(""); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("%v: want %v", err, token.ErrUnknown)
	}
	if err := ask("Bearer the operator's own secret"); err != nil {
		t.Errorf("%v: want it allowed", err)
	}
	again, err := token.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	g.Use(again) // the counts go on
	uses := map[string]uint64{}
	g.Uses(func(name string, n uint64) { uses[name] = n })
	if uses[""] != 1 || uses["operator"] != 1 {
		t.Errorf("%v: want one request of the operator, and one without a token", uses)
	}
	// Around the Handler there is no way in.
	r := httptest.NewRequest("POST", "/rate/a", nil)
	r.Header.Set("Authorization", "Bearer the operator's own secret")
	if err := g.Authorize(r, token.Decide, "a"); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("%v: want %v", err, token.ErrUnknown)
	}
}

// A Session allows what the Set in force allows its secret.
func TestSession(t *testing.T) {
	parse := func(text string) *token.Set {
		set, err := token.Parse("tokens.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	var g token.Guard
	s, wrong := g.Identify(secret), g.Identify("another secret")
	check := func(when string, want, wantWrong error) {
		t.Helper()
		if err := s.Authorize(token.Decide, "user:1"); !errors.Is(err, want) || s.Known() != (want != token.ErrUnknown) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
		if err := wrong.Authorize(token.Decide, "user:1"); !errors.Is(err, wantWrong) || wrong.Known() != (wantWrong == nil) {
			t.Errorf("%s: another secret: %v, want %v", when, err, wantWrong)
		}
		s.Count()
		wrong.Count()
	}
	check("without tokens", nil, nil)
	g.Use(parse(tokens))
	check("with tokens", nil, token.ErrUnknown)
	if err := s.Authorize(token.Decide, "admin"); !errors.Is(err, token.ErrForbidden) {
		t.Error(err)
	}
	if got := s.Tenant(token.Decide); got != "shop" {
		t.Errorf("a token of some keys: %q", got)
	}
	g.Use(parse("tokens: [{name: shop, sha256: " + hashed(secret) + ", allow: [lease]}]"))
	check("reloaded", token.ErrForbidden, token.ErrUnknown)
	if got := s.Tenant(token.Lease) + wrong.Tenant(token.Lease); got != "" {
		t.Errorf("a token of all keys, and none: %q", got)
	}
	uses := map[string]uint64{}
	g.Uses(func(name string, n uint64) { uses[name] = n })
	if uses["shop"] != 2 || uses[""] != 2 {
		t.Error(uses)
	}
	g.Use(parse("tokens: []"))
	check("removed", token.ErrUnknown, token.ErrUnknown)
	g.Use(nil)
	check("no tokens any more", nil, nil)
}
