package weirecho4

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/routercheck"
)

// With echo's own adapter, echo answers an error after the middleware has returned.
// The answer must not reach another client.
func TestAnErrorAfterTheMiddleware(t *testing.T) {
	e := echo.New()
	e.Use(echo.WrapMiddleware(routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto}).Handler))
	e.GET("/fails", func(echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "no coffee") })
	e.GET("/works", func(c echo.Context) error { return c.String(http.StatusOK, "works") })
	s := httptest.NewServer(e)
	defer s.Close()
	var clients sync.WaitGroup
	for i := range 8 {
		path, status, text := "/works", http.StatusOK, "works"
		if i%2 == 0 {
			path, status, text = "/fails", http.StatusTeapot, "no coffee"
		}
		clients.Go(func() {
			for range 100 {
				resp, err := http.Get(s.URL + path)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != status || !strings.Contains(string(body), text) {
					t.Errorf("%s: %s %q %v", path, resp.Status, body, err)
				}
			}
		})
	}
	clients.Wait()
}
