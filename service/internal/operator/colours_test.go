package operator_test

import (
	"testing"

	"github.com/weir-go/weir/service/internal/web/webtest"
)

func TestColours(t *testing.T) {
	webtest.Colours(t, "assets/base.css",
		[]string{"allowed", "denied", "shadow", "waiting"},
		[]string{"allowed", "rejected", "denied", "shadow"},
		[]string{"allowed", "ink", "waiting"},
	)
}
