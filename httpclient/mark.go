package httpclient

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
)

// mark returns the request with the headers that tell the server its deadline and
// its priority. Headers that the caller has set stay. If it adds one, it returns a
// copy.
func (t *Transport) mark(r *http.Request) *http.Request {
	ctx := r.Context()
	deadline, criticality := t.cfg.Deadline, t.cfg.Criticality
	end, ends := ctx.Deadline()
	if deadline != "" && (!ends || r.Header[deadline] != nil) {
		deadline = ""
	}
	if criticality != "" && r.Header[criticality] != nil {
		criticality = ""
	}
	if deadline == "" && criticality == "" {
		return r
	}
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if deadline != "" {
		ms := max(time.Until(end).Milliseconds(), 1)
		r.Header[deadline] = []string{strconv.FormatInt(ms, 10)}
	}
	if criticality != "" {
		r.Header[criticality] = []string{caller.LevelName(caller.Level(weir.ClassOf(ctx).Priority))}
	}
	return r
}
