package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/service/internal/proxy"
)

// A tunnel is refused.
func TestConnect(t *testing.T) {
	p := newProxy(t, proxy.Config{Transport: origin(func(r *http.Request) (*http.Response, error) {
		t.Errorf("the origin gets %s %s", r.Method, r.URL)
		return answer(200), nil
	})})
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "CONNECT", "http://elsewhere.test:443", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("%d: want 405", w.Code)
	}
}

// The origin gets a query as the client has sent it. Of upgrades, it gets none to
// HTTP/2: many requests would be one exchange that the limit does not count.
func TestForward(t *testing.T) {
	for _, tt := range []struct{ query, upgrade, want string }{
		{query: "a=1;b=2"},
		{query: "a=%zz&b"},
		{query: "q=%2F+%C3%A9", upgrade: "websocket", want: "websocket"},
		{upgrade: "h2c"},
		{upgrade: "websocket, H2C"},
		{upgrade: "h2c-like", want: "h2c-like"},
	} {
		t.Run(tt.query+tt.upgrade, func(t *testing.T) {
			p := newProxy(t, proxy.Config{Transport: origin(func(r *http.Request) (*http.Response, error) {
				if got := r.URL.RawQuery; got != tt.query {
					t.Errorf("the query is %q, want %q", got, tt.query)
				}
				if got := r.Header.Get("Upgrade"); got != tt.want {
					t.Errorf("the upgrade is %q, want %q", got, tt.want)
				}
				for _, name := range []string{"Connection", "HTTP2-Settings"} {
					if got := r.Header.Get(name); tt.want == "" && got != "" {
						t.Errorf("%s: %s", name, got)
					}
				}
				return answer(200), nil
			})})
			r := httptest.NewRequestWithContext(t.Context(), "GET", "http://proxy.test/?"+tt.query, nil)
			if tt.upgrade != "" {
				r.Header.Set("Connection", "Upgrade, HTTP2-Settings")
				r.Header.Set("Upgrade", tt.upgrade)
				r.Header.Set("HTTP2-Settings", "AAMAAABk")
			}
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if w.Code != 200 {
				t.Error(w.Code, w.Body)
			}
		})
	}
}
