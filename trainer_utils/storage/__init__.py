"""Where bytes lie: local files and object stores behind one protocol, without TensorFlow.

for file in list_files("gs://bucket/photos"):
    data = read_bytes(join("gs://bucket/photos", file.path))
"""

from trainer_utils.storage.faults import (
    FileRefusedError,
    MachineError,
    is_fault,
    naming_file,
    persist,
    problem_of,
)
from trainer_utils.storage.file_system import (
    FolderEntry,
    InputFile,
    display_path,
    is_object_store,
    is_remote,
    join,
)
from trainer_utils.storage.files import (
    copy_file,
    exists,
    file_size,
    file_system_of,
    file_version,
    find_file,
    is_folder,
    list_files,
    list_folder,
    list_names,
    make_folder,
    open_for_reading,
    read_bytes,
    read_bytes_of_size,
    read_range,
    read_text,
    remove_file,
    remove_tree,
    rename,
    walk_files,
    write_atomically,
    write_text,
)
from trainer_utils.storage.local import begin_sync, sync_files, sync_folder
