package adminapi

import (
	"errors"
	"net/http"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Reset is the answer to a reset of a key.
type Reset struct {
	Key   string          `json:"key"`
	Rules []decider.Reset `json:"rules"` // that count for the key
}

func (a *API) serveReset(w http.ResponseWriter, r *http.Request) {
	key, ok := requestedKey(w, r)
	if !ok {
		return
	}
	done, err := a.cfg.Reset(r.Context(), key)
	switch {
	case errors.Is(err, decider.ErrResetUpstream):
		operator.Fail(w, http.StatusConflict, err.Error()+" (POST /-/reset at "+a.cfg.UpstreamURL+"'s --admin)")
	case err != nil:
		operator.Fail(w, http.StatusServiceUnavailable, err.Error())
	case len(done) == 0:
		operator.Fail(w, http.StatusNotFound, "no rule with a rate matches this key: there is nothing to reset")
	default:
		operator.Answer(w, http.StatusOK, Reset{key, done})
	}
}
