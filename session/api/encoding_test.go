package api_test

import (
	"testing"

	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/session/api"
)

func TestEncoding(t *testing.T) {
	t.Parallel()
	eventstest.TestEncoding(t, api.Request{}, api.Response{}, api.ErrorBody{}, api.Delta{})
}
