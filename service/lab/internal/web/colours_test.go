package web_test

import (
	"testing"

	"github.com/weir-go/weir/service/internal/web/webtest"
)

func TestColours(t *testing.T) {
	webtest.Colours(t, "assets/style.css",
		[]string{"success", "rejected", "origin-timeout", "timeout", "error"},
		[]string{"success", "rejected", "ink"},
		[]string{"success", "good", "rejected", "timeout"},
	)
}
