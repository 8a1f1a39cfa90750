package llm

import "context"

// Lister is a [Provider] that can list its models. Its errors are those of Complete. An endpoint without a list is an
// error of [KindRequest].
type Lister interface {
	Models(ctx context.Context) ([]string, error)
}
