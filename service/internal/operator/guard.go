package operator

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/server/token"
)

// Guard returns next for operators with a token: one that allows metrics for GET /metrics, admin for all else. The
// probes /-/health and /-/ready need none. If tokens is nil, all requests are allowed. Guard logs each request that may
// change something, with the name of its token and the address of its client.
func Guard(next http.Handler, tokens *token.Guard, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := ""
		if action := right(r); tokens != nil && action != "" {
			var err error
			if name, err = tokens.AuthorizeOperator(r, action); err != nil {
				refuse(w, err)
				return
			}
		}
		if reads(r) {
			next.ServeHTTP(w, r)
			return
		}
		s := httpserve.StatusWriter{ResponseWriter: w, Status: http.StatusOK}
		next.ServeHTTP(&s, r)
		logRequest(log, r, s.Status, name)
	})
}

// maxRequest bounds a request in the log, in bytes.
const maxRequest = 4096

func logRequest(log *slog.Logger, r *http.Request, status int, token string) {
	request := r.Method + " " + r.URL.RequestURI()
	facts := []any{"request", request[:min(len(request), maxRequest)], "status", status}
	if token != "" {
		facts = append(facts, "token", token)
	}
	from := r.RemoteAddr
	if from == "" || from == "@" {
		from = "unix"
	}
	log.Info("request of an operator", append(facts, "from", from)...)
}

// right returns what the token of a request must allow; "" if it needs none.
func right(r *http.Request) token.Action {
	switch {
	case r.URL.Path == "/-/health" || r.URL.Path == "/-/ready":
		return ""
	case r.URL.Path == "/metrics" && reads(r):
		return token.Metrics
	}
	return token.Admin
}

// reads reports whether a request changes nothing.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusForbidden
	if errors.Is(err, token.ErrUnknown) {
		status = http.StatusUnauthorized
	}
	w.Header()["Www-Authenticate"] = []string{"Bearer", `Basic realm="weir"`}
	Fail(w, status, err.Error())
}
