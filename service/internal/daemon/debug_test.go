package daemon

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
)

// The keys of all clients are listed for a token that allows it; without tokens, for clients on loopback.
func TestWhoListsKeys(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte(`tokens:
  - {name: ops, token: secret-of-the-operator, allow: [debug]}
  - {name: shop, token: secret-of-the-shop}
  - {name: some, token: secret-of-the-tenant, allow: [debug], keys: ["a*"]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tokens, path, from, secret string
		want                       int
	}{
		{"", "/debug", "127.0.0.1:9", "", 200}, {"", "/debug", "[::1]:9", "", 200}, {"", "/debug", "[::ffff:127.0.0.1]:9", "", 200}, {"", "/debug", "@", "", 200},
		{"", "/debug", "192.0.2.1:9", "", 403}, {"", "/debug/", "[2001:db8::1]:9", "", 403}, {"", "/debug", "192.0.2.1:9", "secret-of-the-operator", 403},
		{"", "/debug/a", "192.0.2.1:9", "", 200}, {"", "/rate/a?n=0", "192.0.2.1:9", "", 200},
		{tokens, "/debug", "192.0.2.1:9", "secret-of-the-operator", 200}, {tokens, "/debug", "127.0.0.1:9", "secret-of-the-shop", 403},
		{tokens, "/debug", "192.0.2.1:9", "secret-of-the-tenant", 403}, {tokens, "/debug/a", "192.0.2.1:9", "secret-of-the-tenant", 200},
		{tokens, "/debug", "127.0.0.1:9", "", 401},
	} {
		d, err := New(Config{
			LoadRules: func() (*config.Rules, error) {
				return config.Parse("rules.yaml", []byte("rules: [{glob: '*', rate: 10/s}]"))
			},
			Tokens: tt.tokens, MaxConnections: 10, MaxAssignments: 10, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		r, w := httptest.NewRequest("GET", tt.path, nil), httptest.NewRecorder()
		r.RemoteAddr = tt.from
		r.Header.Set("Authorization", "Bearer "+tt.secret)
		if d.handler().ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s from %s with %q, tokens %t: %d, %s: want %d", tt.path, tt.from, tt.secret, tt.tokens != "", w.Code, w.Body, tt.want)
		}
		if w.Code == 403 && tt.tokens == "" && !strings.Contains(w.Body.String(), "keys are listed to clients on loopback, to operators") {
			t.Errorf("%s: want it said who may", w.Body)
		}
	}
}
