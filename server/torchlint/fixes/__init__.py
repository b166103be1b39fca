"""Making edits: computed from nodes and the live text, when somebody asks for a fix."""

from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.fixes.edits import apply_edits, minimal_edits

__all__ = ["Editor", "FixImpossible", "apply_edits", "minimal_edits"]
