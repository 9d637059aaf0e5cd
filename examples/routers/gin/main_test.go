package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/examples/routers/internal/check"
	"github.com/weir-go/weir/httplimit"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	os.Exit(m.Run())
}

func TestUse(t *testing.T) {
	check.Run(t, check.Router{Hello: "/hello/:name", Hook: "/hook", Recovers: true,
		New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
			m := check.Middleware(t, cfg)
			router := gin.New()
			router.Use(gin.Recovery(), limit(m))
			router.GET("/hello/:name", hello)
			router.GET("/hook", gin.WrapF(hook))
			return router, m
		}})
}

// What is around the Middleware sees the status and the size of every answer,
// also where gin sends the status by itself, or it is changed before it is sent.
func TestStatusAndSize(t *testing.T) {
	m := check.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := gin.New()
	var status, size int
	router.Use(func(c *gin.Context) {
		c.Next()
		status, size = c.Writer.Status(), c.Writer.Size()
	}, limit(m))
	router.GET("/aborted", func(c *gin.Context) { c.AbortWithStatus(http.StatusServiceUnavailable) })
	router.GET("/changed", func(c *gin.Context) {
		c.Status(http.StatusOK)
		c.JSON(http.StatusServiceUnavailable, "busy")
	})
	router.GET("/silent", func(c *gin.Context) { c.Status(http.StatusGatewayTimeout) })
	router.GET("/fine", func(c *gin.Context) { c.String(http.StatusAccepted, "fine") })
	for _, tt := range []struct {
		path   string
		status int
		body   string
		size   int
		want   weir.Outcome
	}{
		{"/aborted", 503, "", 0, weir.Dropped},
		{"/changed", 503, `"busy"`, 6, weir.Dropped},
		{"/silent", 504, "", -1, weir.Dropped},
		{"/fine", 202, "fine", 4, weir.Success},
	} {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
		if w.Code != tt.status || w.Body.String() != tt.body || status != tt.status || size != tt.size {
			t.Errorf("%s: %d %q, and around it %d, %d bytes", tt.path, w.Code, w.Body, status, size)
		}
		check.Outcome(t, m, tt.path, tt.want)
	}
}

// A request that is refused goes no further, and what is around sees that.
func TestRefusalAborts(t *testing.T) {
	closed := httplimit.Config{PerClass: func(string) weir.Limiter { return check.Closed() }}
	router := gin.New()
	var status int
	router.Use(func(c *gin.Context) {
		c.Next()
		status = c.Writer.Status()
	}, limit(check.Middleware(t, closed)))
	ran := false
	router.GET("/", func(*gin.Context) { ran = true }, func(*gin.Context) { ran = true })
	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 503 || status != 503 || ran {
		t.Errorf("%d, around it %d, ran: %v", w.Code, status, ran)
	}
}

// What is around the Middleware may write, too, when the handler has ended.
func TestWhatIsAroundWrites(t *testing.T) {
	router := gin.New()
	router.Use(func(c *gin.Context) {
		c.Next()
		c.String(http.StatusOK, "bye\n")
	}, limit(check.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})))
	router.GET("/hello/:name", hello)
	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest("GET", "/hello/ada", nil))
	if w.Code != 200 || w.Body.String() != "hello, ada\nbye\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}
