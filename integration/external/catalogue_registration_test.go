package external

import (
	"testing"

	"github.com/lash-go/lash/integration/harness"
	"github.com/lash-go/lash/session/plugin/wire"
)

var registrationCases = []serviceCase{
	{"T01_first_request_must_register", firstRequestMustRegister},
}

func firstRequestMustRegister(t *testing.T, on place) {
	s := on.start(t)
	s.node()
	answer := s.client().request("notes", "beat", registration("1"))
	if answer.Error == nil || answer.Error.Code != wire.CodeBadRequest {
		t.Errorf("answer: got %+v, want %s", answer, wire.CodeBadRequest)
	}
	harness.DeepEqual(t, "instances", len(s.first.Status()[0].Instances), 0)
	harness.DeepEqual(t, "version", s.first.Status()[0].Version, "")
}
