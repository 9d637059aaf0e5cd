package adminapi

import "embed"

//go:embed assets
var assets embed.FS
