import json
from pathlib import Path
