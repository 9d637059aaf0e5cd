module github.com/weir-go/weir/router/weirecho

go 1.26.0

require (
	github.com/labstack/echo/v5 v5.4.5
	github.com/weir-go/weir v0.1.0
)

require golang.org/x/time v0.15.0 // indirect

replace github.com/weir-go/weir => ../../
