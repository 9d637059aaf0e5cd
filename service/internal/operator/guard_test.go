package operator_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server/token"
)

// Each request of an operator that may change something leaves a line in the log, with its token, the address
// of its client and the status. Reading leaves none, nor does a request that is refused for its token.
func TestGuardLogs(t *testing.T) {
	set, err := token.Parse("tokens.yaml", []byte(`tokens:
  - {name: ops, token: secret-of-the-operator, allow: [admin]}
  - {name: prometheus, token: secret-of-the-scraper, allow: [metrics]}
`))
	if err != nil {
		t.Fatal(err)
	}
	var guard token.Guard
	guard.Use(set)
	for _, tt := range []struct {
		rule          string
		tokens        *token.Guard
		request, from string
		authorization string
		want          string // in the log
	}{
		{"a reset", &guard, "POST /-/reset?key=user%3A1", "192.0.2.1:9", "Bearer secret-of-the-operator",
			`level=INFO msg="request of an operator" request="POST /-/reset?key=user%3A1" status=404 token=ops from=192.0.2.1:9`},
		{"a browser", &guard, "POST /-/reload", "[2001:db8::1]:9", "Basic YW55OnNlY3JldC1vZi10aGUtb3BlcmF0b3I=",
			`level=INFO msg="request of an operator" request="POST /-/reload" status=404 token=ops from=[2001:db8::1]:9`},
		{"any method that may change something", &guard, "DELETE /x", "192.0.2.1:9", "Bearer secret-of-the-operator",
			`level=INFO msg="request of an operator" request="DELETE /x" status=404 token=ops from=192.0.2.1:9`},
		{"without tokens", nil, "POST /-/set?limit=1", "192.0.2.1:9", "",
			`level=INFO msg="request of an operator" request="POST /-/set?limit=1" status=404 from=192.0.2.1:9`},
		{"a Unix socket", nil, "POST /-/reload", "@", "", `level=INFO msg="request of an operator" request="POST /-/reload" status=404 from=unix`},
		{"a long one", nil, "POST /-/reset?key=" + strings.Repeat("k", 10_000), "192.0.2.1:9", "",
			`level=INFO msg="request of an operator" request="POST /-/reset?key=` + strings.Repeat("k", 4096-len("POST /-/reset?key=")) + `" status=404 from=192.0.2.1:9`},
		{"reading", &guard, "GET /-/status", "192.0.2.1:9", "Bearer secret-of-the-operator", ""},
		{"a scraper", &guard, "POST /-/reset?key=a", "192.0.2.1:9", "Bearer secret-of-the-scraper", ""},
		{"an unknown token", &guard, "POST /-/reload", "192.0.2.1:9", "Bearer of-nobody-at-all", ""},
	} {
		var log bytes.Buffer
		h := operator.Guard(http.NotFoundHandler(), tt.tokens, slog.New(slog.NewTextHandler(&log, nil)))
		method, target, _ := strings.Cut(tt.request, " ")
		r := httptest.NewRequest(method, target, nil)
		r.RemoteAddr = tt.from
		r.Header.Set("Authorization", tt.authorization)
		h.ServeHTTP(httptest.NewRecorder(), r)
		_, got, _ := strings.Cut(strings.TrimSuffix(log.String(), "\n"), " ") // without the time
		if got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.rule, got, tt.want)
		}
	}
}
