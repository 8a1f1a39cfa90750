//go:build !unix

package busembed

import "errors"

// Free is not known on this system.
func (*Server) Free() (int64, error) { return 0, errors.ErrUnsupported }
