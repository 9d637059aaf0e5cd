package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir"
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
		r.Header[says] = criticality(weir.ClassOf(ctx).Priority)
	}
	return r
}

// The values of a criticality header.
var (
	sheddable     = []string{"sheddable"}
	sheddablePlus = []string{"sheddable_plus"}
	critical      = []string{"critical"}
	criticalPlus  = []string{"critical_plus"}
)

// criticality returns the value of the level that p belongs to. It is not to be
// changed.
func criticality(p weir.Priority) []string {
	switch {
	case p <= weir.Sheddable:
		return sheddable
	case p < weir.Critical:
		return sheddablePlus
	case p == weir.Critical:
		return critical
	default:
		return criticalPlus
	}
}
