package httpclient

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
)

// mark returns a request with the headers that tell the server its deadline and
// its priority. One that is there already stays as it is. It is a request of
// its own if anything is added.
func (t *Transport) mark(r *http.Request) *http.Request {
	ctx := r.Context()
	left, says := t.cfg.Deadline, t.cfg.Criticality
	end, ends := ctx.Deadline()
	if left != "" && (!ends || r.Header[left] != nil) {
		left = ""
	}
	if says != "" && r.Header[says] != nil {
		says = ""
	}
	if left == "" && says == "" {
		return r
	}
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if left != "" {
		ms := max(time.Until(end).Milliseconds(), 1)
		r.Header[left] = []string{strconv.FormatInt(ms, 10)}
	}
	if says != "" {
		r.Header[says] = criticalities[caller.Level(weir.ClassOf(ctx).Priority)]
	}
	return r
}

// criticalities are the values of a criticality header, by level.
var criticalities = func() (values [caller.Levels][]string) {
	for i := range values {
		values[i] = []string{caller.LevelName(i)}
	}
	return values
}()
