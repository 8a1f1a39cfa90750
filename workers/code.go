package workers

import (
	"context"

	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// execute runs a protocol's code.
func (d *dispatch) execute(context.Context, []byte) (plugin.Result, error) {
	return plugin.Result{}, api.ErrCodeUnavailable
}
